"""The keys of an MPIJob are valid for SSH and unique."""

from __future__ import annotations

import base64
import subprocess
import sys

from cryptography.hazmat.primitives import serialization

from trainshed.controller.executor import key_pair


def halves() -> tuple[bytes, bytes]:
    found = {name: base64.b64decode(text) for name, text in key_pair().items()}
    assert sorted(found) == ["ssh-privatekey", "ssh-publickey"]
    return found["ssh-privatekey"], found["ssh-publickey"]


def test_the_public_key_matches_the_private_key():
    private, public = halves()
    assert private.startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    assert public.startswith(b"ecdsa-sha2-nistp521 ")
    assert public.endswith(b"\n")
    key = serialization.load_pem_private_key(private, password=None)
    form = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert key.public_key().public_bytes(*form) == public.strip()


def test_every_key_pair_is_unique():
    assert len({halves()[0] for _ in range(5)}) == 5


def test_the_library_is_loaded_only_when_keys_are_generated():
    script = "import sys, trainshed.controller.manager; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0

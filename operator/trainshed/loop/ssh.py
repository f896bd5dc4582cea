"""Generates the SSH keys with which the launcher of an MPIJob connects to its workers; only the Secret stores them."""

from __future__ import annotations

import base64


def key_pair() -> dict[str, str]:
    """Return the data of a Secret of type `kubernetes.io/ssh-auth`: an ECDSA key on P-521 and its public key.

    Takes about a millisecond.
    """
    # Imported here, because it takes 14 MB of memory, which only operators with such jobs should need.
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.TraditionalOpenSSL, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return {"ssh-privatekey": _encoded(private), "ssh-publickey": _encoded(public + b"\n")}


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()

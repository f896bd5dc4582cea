"""Makes the keys by which the launcher of an MPIJob enters its workers; they are in the Secret, and nowhere else."""

from __future__ import annotations

import base64


def key_pair() -> dict[str, str]:
    """The data of a Secret of the type `kubernetes.io/ssh-auth`: an ECDSA key on P-521, and its public half.

    It takes about a millisecond.
    """
    # It takes 14 MB, which only those are to pay who run such jobs.
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.TraditionalOpenSSL, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return {"ssh-privatekey": _encoded(private), "ssh-publickey": _encoded(public + b"\n")}


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()

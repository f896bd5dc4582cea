"""The certificates of the progress endpoint: a CA that lasts long, and a certificate of the server that it signs."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trainshed.api.job import Document

#: How long a CA and a certificate last, and what is left of them when others are made. A program that runs keeps the
#: CAs that it has read at its start, so a CA lasts longer than any training.
CA_LASTS, CA_RENEWED = timedelta(days=20 * 365), timedelta(days=365)
SERVER_LASTS, SERVER_RENEWED = timedelta(days=90), timedelta(days=30)
#: Certificates are valid some time before they are made: clocks of nodes differ.
BEFORE = timedelta(hours=1)
#: The CAs of a bundle: that which signs, then the one before it.
MAX_AUTHORITIES = 2
#: The keys of the Secret.
BUNDLE, CA_KEY, CERTIFICATE, KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"


class ServingCertificate(msgspec.Struct, frozen=True):
    """PEM texts: the CAs that clients trust, the first of which signs with its key, and the certificate of the server.

    The reprs of keys would reach logs, so there are none.
    """

    bundle: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        """Return the class only."""
        return "ServingCertificate(…)"

    def data(self) -> Document:
        """Return the data of its Secret."""
        parts = (self.bundle, self.authority_key, self.certificate, self.key)
        names = (BUNDLE, CA_KEY, CERTIFICATE, KEY)
        return {name: base64.b64encode(part).decode() for name, part in zip(names, parts, strict=True)}

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let new connections of this server present the certificate."""
        with _file(self.certificate + self.key) as path:
            context.load_cert_chain(path)


def from_secret(data: Mapping[str, object] | None) -> ServingCertificate | None:
    """Return what a Secret has, None if a part is missing or is no text of base64."""
    try:
        parts = [
            base64.b64decode(str((data or {})[name]), validate=True) for name in (BUNDLE, CA_KEY, CERTIFICATE, KEY)
        ]
    except (KeyError, binascii.Error, UnicodeEncodeError, ValueError):
        return None
    return ServingCertificate(*parts)


def renewed(known: ServingCertificate | None, host: str, now: datetime) -> ServingCertificate:
    """Return certificates for this host that last for some time: the known ones if they do, else others.

    A CA stays as long as it can. One that is replaced stays in the bundle: pods may have read no other.
    """
    found = _parsed(known) if known else None
    if found and known and _lasts(found, host, now):
        return known
    if found is None or _left(found.authorities[0], now) < CA_RENEWED:
        key = _new_key()
        # The names may be equal: a client finds the right one by the identifier of the key.
        authority = _signed(_authority(f"{host} CA", key), key, now, CA_LASTS)
        before = [one for one in found.authorities if _left(one, now) > timedelta()] if found else []
        found = _Parsed([authority, *before][:MAX_AUTHORITIES], key)
    server_key = _new_key()
    server = _signed(_server(host, server_key, found.authorities[0]), found.key, now, SERVER_LASTS)
    bundle = b"".join(map(_pem, found.authorities))
    return ServingCertificate(bundle, _key_pem(found.key), _pem(server), _key_pem(server_key))


def end_of(known: ServingCertificate, host: str) -> datetime | None:
    """Return when certificates for this host end; None if they are not usable, or those of another host."""
    found = _parsed(known)
    if found is None or found.server is None or not _is_of(found.server, host):
        return None
    return min(one.not_valid_after_utc for one in (found.authorities[0], found.server))


class _Parsed(NamedTuple):
    """The CAs, the key of the first one, and the certificate that it has signed."""

    authorities: list[x509.Certificate]
    key: ec.EllipticCurvePrivateKey
    server: x509.Certificate | None = None


def _parsed(known: ServingCertificate) -> _Parsed | None:
    """Return None for what is not usable, such as a Secret that was edited."""
    try:
        authorities = x509.load_pem_x509_certificates(known.bundle)
        key, own = (form.load_pem_private_key(text, None) for text in (known.authority_key, known.key))
        server = x509.load_pem_x509_certificate(known.certificate)
        server.verify_directly_issued_by(authorities[0])
        fits = (key.public_key(), own.public_key()) == (authorities[0].public_key(), server.public_key())
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return None
    return _Parsed(authorities, key, server) if fits and isinstance(key, ec.EllipticCurvePrivateKey) else None


def _lasts(found: _Parsed, host: str, now: datetime) -> bool:
    """Return whether neither the CA nor the certificate of the server ends soon, and it is that of the host."""
    if (
        found.server is None
        or _left(found.authorities[0], now) < CA_RENEWED
        or _left(found.server, now) < SERVER_RENEWED
    ):
        return False
    return _is_of(found.server, host)


def _is_of(server: x509.Certificate, host: str) -> bool:
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return list(names) == [_host_name(host)]


def _left(certificate: x509.Certificate, now: datetime) -> timedelta:
    return certificate.not_valid_after_utc - now


def _new_key() -> ec.EllipticCurvePrivateKey:

    return ec.generate_private_key(ec.SECP256R1())


def _authority(name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:

    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    subject = _name(name)
    return (
        x509.CertificateBuilder(issuer_name=subject, subject_name=subject, public_key=key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(own, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
    )


def _server(host: str, key: ec.EllipticCurvePrivateKey, authority: x509.Certificate) -> x509.CertificateBuilder:

    issuer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        x509.CertificateBuilder(issuer_name=authority.subject, subject_name=_name(host), public_key=key.public_key())
        .add_extension(x509.SubjectAlternativeName([_host_name(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _host_name(host: str) -> x509.GeneralName:
    """Return a host as clients look for it: by name, or by address."""
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(text: str) -> x509.Name:
    """Return a name of at most 64 characters; which host is meant is said by the alternative name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[-64:])])


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, now: datetime, lasts: timedelta
) -> x509.Certificate:

    dated = builder.not_valid_before(now - BEFORE).not_valid_after(now + lasts)
    return dated.serial_number(x509.random_serial_number()).sign(key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:

    return certificate.public_bytes(form.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:

    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Yield the path of a file with a secret: Python loads keys only from files, and the pod has none to write to."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("trainshed"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile(prefix="trainshed-", suffix=".pem") as named:
        named.write(content)
        named.flush()
        yield named.name

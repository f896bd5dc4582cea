"""The certificates of the progress endpoint: what clients demand of them, and when others are made."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cryptography import x509

from trainshed.controller.serving_certificates import ServingCertificate, from_secret, renewed

HOST = "trainshed-progress.operators.svc"
NOW = datetime(2026, 11, 28, tzinfo=UTC)
FIRST = renewed(None, HOST, NOW)


def accepts(bundle: bytes, server: ServingCertificate, host: str = HOST, *, now: bool = True) -> bool:
    """Whether a client that trusts a bundle accepts a server, as strictly as Python 3.13 does."""
    trusting, serving = ssl.create_default_context(cadata=bundle.decode()), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    server.load_into(serving)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname=host)
    there = serving.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, there):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return True


def authorities(found: ServingCertificate) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(found.bundle)


def test_clients_accept_the_server_by_its_name_only():
    now = renewed(None, HOST, datetime.now(UTC))
    assert accepts(now.bundle, now)
    assert not accepts(now.bundle, now, "other.operators.svc")
    assert not accepts(renewed(None, HOST, datetime.now(UTC)).bundle, now)
    local = renewed(None, "127.0.0.1", datetime.now(UTC))
    assert [accepts(local.bundle, local, host) for host in ("127.0.0.1", "127.0.0.2", HOST)] == [True, False, False]
    assert renewed(local, "127.0.0.1", datetime.now(UTC)) == local


def test_the_secret_has_it_all_and_a_log_has_no_key():
    assert from_secret(FIRST.data()) == FIRST
    assert repr(FIRST) == "ServingCertificate(…)"


@pytest.mark.parametrize(
    "data", [None, {}, {"ca.crt": "eA=="}, FIRST.data() | {"tls.key": "no base64"}, FIRST.data() | {"tls.key": "ü"}]
)
def test_a_secret_without_all_parts_is_filled(data):
    assert from_secret(data) is None


@pytest.mark.parametrize(("days", "same", "same_ca"), [(0, True, True), (59, True, True), (61, False, True)])
def test_a_certificate_is_renewed_a_month_before_its_end(days, same, same_ca):
    found = renewed(FIRST, HOST, NOW + timedelta(days=days))
    assert (found == FIRST, found.bundle == FIRST.bundle) == (same, same_ca)


def test_another_name_needs_another_certificate_of_the_same_ca():
    found = renewed(FIRST, "other.operators.svc", NOW)
    assert found.bundle == FIRST.bundle
    assert found.certificate != FIRST.certificate


def test_a_ca_is_replaced_a_year_before_its_end_and_stays_trusted():
    later = NOW + timedelta(days=19 * 365 + 1)
    second = renewed(FIRST, HOST, later)
    new, old = authorities(second)
    assert old == authorities(FIRST)[0]
    assert new.not_valid_after_utc > later + timedelta(days=19 * 365)
    assert renewed(second, HOST, later) == second
    third = renewed(second, HOST, later + timedelta(days=19 * 365 + 1))
    assert authorities(third)[1:] == [new], "what has ended is not trusted any more"


@pytest.mark.parametrize("part", ["bundle", "authority_key", "certificate", "key"])
@pytest.mark.parametrize("other", [b"", renewed(None, HOST, NOW)])
def test_what_was_edited_is_replaced(part, other):
    content = other if isinstance(other, bytes) else getattr(other, part)
    edited = msgspec.structs.replace(FIRST, **{part: content})
    found = renewed(edited, HOST, NOW)
    assert found != edited
    assert renewed(found, HOST, NOW) == found

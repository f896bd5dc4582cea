"""Who we are to the API server."""

from __future__ import annotations

import base64
import ssl
import tempfile
from pathlib import Path

import pytest
import yaml

from bed.certificates import Authority
from trainshed.cluster import credentials
from trainshed.cluster.credentials import Badge, NoCredentials, find


def kubeconfig(folder, user, cluster=None, **top):
    """A kubeconfig file with this user."""
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://example.com/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config | top))
    return str(path)


def test_a_token_is_sent(tmp_path):
    found = find(kubeconfig(tmp_path, {"token": "t"}))
    assert found.server == "https://example.com"
    assert found.headers() == {"Authorization": "Bearer t"}
    assert find(kubeconfig(tmp_path, {})).headers() == {}


def test_a_token_file_is_read_anew_each_time(tmp_path):
    (tmp_path / "token").write_text("one\n")
    found = find(kubeconfig(tmp_path, {"tokenFile": "token"}))
    assert found.headers() == {"Authorization": "Bearer one"}
    (tmp_path / "token").write_text("two")
    assert found.headers() == {"Authorization": "Bearer two"}


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """An empty folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_key_that_the_kubeconfig_holds_is_used_and_left_in_no_file(tmp_path, temporary):
    authority = Authority(tmp_path)
    authority.make()
    authority.sign("user", "user")
    files = {"client-certificate": "user.crt", "client-key": "user.key", "certificate-authority": "ca.crt"}
    held = {f"{name}-data": base64.b64encode((tmp_path / file).read_bytes()).decode() for name, file in files.items()}
    found = find(kubeconfig(tmp_path, held, {"certificate-authority-data": held.pop("certificate-authority-data")}))
    assert base64.b64decode(held["client-key-data"]) == found.key_data
    assert "PRIVATE KEY" not in repr(found)
    context = found.tls()
    assert context.cert_store_stats()["x509_ca"] == 1
    assert list(temporary.iterdir()) == []
    wrong = kubeconfig(tmp_path, {**held, "client-key-data": base64.b64encode(b"no key").decode()})
    with pytest.raises(NoCredentials, match="client-certificate-data with client-key-data cannot be used"):
        find(wrong)
    assert list(temporary.iterdir()) == [], "also if the key cannot be loaded"


def test_a_plain_server_needs_no_tls_and_an_unchecked_one_checks_nothing(tmp_path):
    assert find(kubeconfig(tmp_path, {}, {"server": "http://127.0.0.1:1"})).tls() is None
    context = find(kubeconfig(tmp_path, {}, {"insecure-skip-tls-verify": True})).tls()
    assert not context.check_hostname


@pytest.mark.parametrize(
    "server", ["https://example.com", "HTTPS://example.com", "httpS://example.com:6443/clusters/c"]
)
def test_a_server_with_tls_is_always_verified_unless_the_kubeconfig_says_otherwise(tmp_path, server):
    context = find(kubeconfig(tmp_path, {}, {"server": server, "insecure-skip-tls-verify": False})).tls()
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


def test_only_a_true_in_the_kubeconfig_switches_verification_off(tmp_path):
    with pytest.raises(
        NoCredentials, match=r"clusters\[k\]\.cluster\.insecure-skip-tls-verify is neither true nor false"
    ):
        find(kubeconfig(tmp_path, {}, {"insecure-skip-tls-verify": "false"}))


@pytest.mark.parametrize(
    "server",
    ["example.com:6443", "ftp://example.com", "https://", "https://[::1", "https://example.com:port", "file:///x"],
)
def test_a_server_that_is_no_address_of_http_is_said(tmp_path, server):
    with pytest.raises(
        NoCredentials, match=r"clusters\[k\]\.cluster\.server is '.*', which is not https:// or http://"
    ):
        find(kubeconfig(tmp_path, {}, {"server": server}))


@pytest.mark.parametrize(
    ("user", "top", "words"),
    [
        ({"exec": {}}, {}, "needs a plugin"),
        ({}, {"current-context": "other"}, "config: contexts has no item named 'other'"),
        ({}, {"clusters": []}, "config: clusters has no item named 'k'"),
        ({}, {"clusters": [{"name": "k", "cluster": None}]}, r"config: clusters\[k\]\.cluster\.server is missing"),
        ({"client-key-data": "%"}, {}, r"config: users\[u\]\.user\.client-key-data is not base64"),
        (
            {"client-certificate": "away"},
            {},
            r"user\.client-certificate names .*/away, which cannot be read: No such",
        ),
        (
            {"client-certificate-data": "UEVN"},
            {},
            "config: client-certificate-data with client-key-data cannot be used",
        ),
        ({}, {"users": None}, "config: users has no item named 'u'"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path, user, top, words):
    with pytest.raises(NoCredentials, match=words):
        find(kubeconfig(tmp_path, user, **top))


def test_an_authority_that_is_none_is_said(tmp_path):
    (tmp_path / "ca.crt").write_text("no certificate")
    with pytest.raises(NoCredentials, match=r"config: .*/ca\.crt cannot be used: .*certificate"):
        find(kubeconfig(tmp_path, {}, {"certificate-authority": "ca.crt"}))


def test_a_file_that_is_none_is_said(tmp_path):
    with pytest.raises(NoCredentials, match="missing cannot be read: No such file or directory"):
        find(str(tmp_path / "missing"))
    (tmp_path / "text").write_text("just text")
    with pytest.raises(NoCredentials, match="text is not a kubeconfig"):
        find(str(tmp_path / "text"))


def test_another_context_may_be_named(tmp_path):
    contexts = [{"name": "mine", "context": {"cluster": "k", "user": "u"}}]
    assert find(kubeconfig(tmp_path, {"token": "t"}, contexts=contexts), "mine").token == "t"


def test_in_a_pod_the_service_account_is_used(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("sa")
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NoCredentials, match="KUBERNETES_SERVICE_HOST"):
        find()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = find()
    assert found.server == "https://[fd00::1]:443"
    assert found.headers() == {"Authorization": "Bearer sa"}


def test_without_anything_it_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(NoCredentials, match=rf"there is no {tmp_path}/.kube/config; name .* with --kubeconfig"):
        find()
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube", {"token": "usual"})
    assert find().token == "usual"
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, {"token": "t"}))
    assert find().token == "t"


def test_a_kubeconfig_that_the_environment_names_has_to_be_there(tmp_path, monkeypatch):
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBECONFIG", "/nope")
    with pytest.raises(NoCredentials, match="KUBECONFIG: /nope cannot be read: No such file or directory"):
        find()
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    with pytest.raises(NoCredentials, match="KUBECONFIG names 2 files"):
        find()


def test_without_a_home_it_says_what_to_do_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(NoCredentials, match="--kubeconfig"):
        find()


def test_a_badge_reads_a_token_again_when_its_file_is_another_or_was_refused(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text("one")
    badge = Badge(find(kubeconfig(tmp_path, {"tokenFile": "token"})))
    assert badge.headers() == {"Authorization": "Bearer one"}
    reads: list[object] = []
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda self, **how: (reads.append(self), read(self, **how))[1])
    for _ in range(100):
        badge.headers()
    assert reads == [], "once is enough while the file is the same"
    (tmp_path / "next").write_text("two")
    (tmp_path / "next").rename(file)  # as a kubelet does
    assert badge.headers() == {"Authorization": "Bearer two"}
    assert badge.renew()
    badge.headers()
    assert len(reads) == 2


def test_a_badge_without_a_file_has_nothing_to_read_again(tmp_path):
    badge = Badge(find(kubeconfig(tmp_path, {"token": "t"})))
    assert badge.headers() == {"Authorization": "Bearer t"}
    assert not badge.renew()

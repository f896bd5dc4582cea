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


def test_paths_are_relative_to_the_kubeconfig_and_data_wins_over_a_path(tmp_path):
    data = base64.b64encode(b"PEM").decode()
    user = {"client-certificate": "a.crt", "client-key": "a.key", "client-key-data": data}
    found = find(kubeconfig(tmp_path, user))
    assert found.certificate == str(tmp_path / "a.crt")
    assert (found.key, found.key_data) == ("", b"PEM")
    assert "PEM" not in repr(found)


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
    context = found.tls()
    assert context.cert_store_stats()["x509_ca"] == 1
    assert list(temporary.iterdir()) == []
    wrong = find(kubeconfig(tmp_path, {**held, "client-key-data": base64.b64encode(b"no key").decode()}))
    with pytest.raises(ssl.SSLError):
        wrong.tls()
    assert list(temporary.iterdir()) == [], "also if the key cannot be loaded"


def test_a_plain_server_needs_no_tls_and_an_unchecked_one_checks_nothing(tmp_path):
    assert find(kubeconfig(tmp_path, {}, {"server": "http://127.0.0.1:1"})).tls() is None
    context = find(kubeconfig(tmp_path, {}, {"insecure-skip-tls-verify": True})).tls()
    assert not context.check_hostname


@pytest.mark.parametrize(
    ("user", "top", "words"),
    [
        ({"exec": {}}, {}, "needs a plugin"),
        ({}, {"current-context": "other"}, "no context named 'other'"),
        ({}, {"clusters": []}, "no cluster named 'k'"),
        ({}, {"users": None}, "no user named 'u'"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path, user, top, words):
    with pytest.raises(NoCredentials, match=words):
        find(kubeconfig(tmp_path, user, **top))


def test_a_file_that_is_none_is_said(tmp_path):
    with pytest.raises(NoCredentials, match="cannot be used as a kubeconfig"):
        find(str(tmp_path / "missing"))
    (tmp_path / "text").write_text("just text")
    with pytest.raises(NoCredentials):
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
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(NoCredentials, match="--kubeconfig"):
        find()
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, {"token": "t"}))
    assert find().token == "t"


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

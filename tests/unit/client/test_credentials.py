"""Credentials come from a kubeconfig or a pod's service account; errors name the file and the field."""

from __future__ import annotations

import base64
import ssl
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml

from testbed.certificates import Authority
from trainshed.client import kubeconfig as kubeconfigs
from trainshed.client.credentials import NoCredentials, TokenSource
from trainshed.client.kubeconfig import find_credentials


def kubeconfig(folder, user, cluster=None, **top):
    """Write a kubeconfig file with this user, and return its path."""
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
    found = find_credentials(kubeconfig(tmp_path, {"token": "t"}))
    assert found.server == "https://example.com"
    assert found.headers() == (("Authorization", "Bearer t"),)
    assert find_credentials(kubeconfig(tmp_path, {})).headers() == ()


def test_a_token_file_is_read_each_time(tmp_path):
    (tmp_path / "token").write_text("one\n")
    found = find_credentials(kubeconfig(tmp_path, {"tokenFile": "token"}))
    assert found.headers() == (("Authorization", "Bearer one"),)
    (tmp_path / "token").write_text("two")
    assert found.headers() == (("Authorization", "Bearer two"),)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Return an empty folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_an_inline_key_is_used_and_leaves_no_file(tmp_path, temporary):
    authority = Authority(tmp_path)
    authority.make()
    authority.sign("user", "user")
    files = {"client-certificate": "user.crt", "client-key": "user.key", "certificate-authority": "ca.crt"}
    held = {f"{name}-data": base64.b64encode((tmp_path / file).read_bytes()).decode() for name, file in files.items()}
    found = find_credentials(
        kubeconfig(tmp_path, held, {"certificate-authority-data": held.pop("certificate-authority-data")})
    )
    assert base64.b64decode(held["client-key-data"]) == found.key_data
    assert "PRIVATE KEY" not in repr(found)
    context = found.tls()
    assert context.cert_store_stats()["x509_ca"] == 1
    assert list(temporary.iterdir()) == []
    wrong = kubeconfig(tmp_path, {**held, "client-key-data": base64.b64encode(b"no key").decode()})
    with pytest.raises(NoCredentials, match="cannot use client-certificate-data with client-key-data"):
        find_credentials(wrong)
    assert list(temporary.iterdir()) == [], "also if the key cannot be loaded"


def test_a_key_with_a_password_is_an_error_and_nobody_is_asked(tmp_path):
    authority = Authority(tmp_path)
    authority.make()
    authority.sign("user", "user")
    words = ["openssl", "ec", "-aes128", "-passout", "pass:secret", "-in", "user.key", "-out", "locked.key"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    user = {"client-certificate": "user.crt", "client-key": "locked.key"}
    with pytest.raises(NoCredentials, match=r"user\.crt with .*locked\.key: the key has a password, which is not supp"):
        find_credentials(kubeconfig(tmp_path, user))


def test_http_needs_no_tls_and_insecure_skips_the_verification(tmp_path):
    assert find_credentials(kubeconfig(tmp_path, {}, {"server": "http://127.0.0.1:1"})).tls() is None
    context = find_credentials(kubeconfig(tmp_path, {}, {"insecure-skip-tls-verify": True})).tls()
    assert not context.check_hostname


@pytest.mark.parametrize(
    "server", ["https://example.com", "HTTPS://example.com", "httpS://example.com:6443/clusters/c"]
)
def test_a_server_with_tls_is_always_verified_unless_the_kubeconfig_says_otherwise(tmp_path, server):
    context = find_credentials(kubeconfig(tmp_path, {}, {"server": server, "insecure-skip-tls-verify": False})).tls()
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)


def test_only_true_switches_the_verification_off(tmp_path):
    with pytest.raises(NoCredentials, match=r"clusters\[k\]\.cluster\.insecure-skip-tls-verify must be true or false"):
        find_credentials(kubeconfig(tmp_path, {}, {"insecure-skip-tls-verify": "false"}))


@pytest.mark.parametrize(
    "server",
    [
        *("example.com:6443", "ftp://example.com", "https://", "https://[::1", "https://example.com:port", "file:///x"),
        "https://jane:canary@example.com",
    ],
)
def test_an_invalid_address_of_the_server_is_an_error(tmp_path, server):
    with pytest.raises(
        NoCredentials, match=r"clusters\[k\]\.cluster\.server must be an https:// or http:// URL"
    ) as error:
        find_credentials(kubeconfig(tmp_path, {}, {"server": server}))
    assert "canary" not in str(error.value)


@pytest.mark.parametrize(
    ("user", "top", "message"),
    [
        ({"exec": ["aws"]}, {}, r"config: users\[u\]\.user\.exec must be a mapping"),
        ({"exec": {"arguments": ["get-token"]}}, {}, r"user\.exec\.arguments is not supported; the supported"),
        ({"exec": {"args": "get-token"}}, {}, r"user\.exec\.args must be a list of strings, in quotes"),
        ({"exec": {"args": ["--port", 80]}}, {}, r"user\.exec\.args must be a list of strings, in quotes"),
        ({"exec": {"env": {"A": "b"}}}, {}, r"user\.exec\.env must be a list of mappings with name and value"),
        ({"exec": {"env": ["A=b"]}}, {}, r"user\.exec\.env must be a list of mappings with name and value"),
        ({"exec": {"env": [{"name": "A", "content": "b"}]}}, {}, r"user\.exec\.env\[0\]\.content is not supported"),
        ({"exec": {"env": [{"name": "A", "value": 1}]}}, {}, r"user\.exec\.env\[0\]\.value must be a string, in quo"),
        ({"exec": {"provideClusterInfo": "no"}}, {}, r"user\.exec\.provideClusterInfo must be true or false"),
        ({"exec": {"command": ["aws"]}}, {}, r"user\.exec\.command must be a string"),
        ({"token": "canary\n"}, {}, r"user\.token cannot be sent: it has a line break"),
        (
            {"auth-provider": {"name": "gcp"}},
            {},
            r"user\.auth-provider is not supported, and not by kubectl",
        ),
        ({"as-groups": ["a"]}, {}, r"user\.as is missing, with which `as-uid`"),
        ({"as": "a", "as-groups": "a"}, {}, r"user\.as-groups must be a list"),
        ({"as": "a\nb"}, {}, r"user\.as cannot be sent: Impersonate-User must be printable text"),
        ({"as": "a", "as-user-extra": {"k": "v"}}, {}, r"user\.as-user-extra must be a mapping of lists"),
        ({}, {"current-context": "other"}, "config: contexts has no entry named 'other'"),
        ({}, {"current-context": ""}, "config has no current-context: choose a context"),
        ({}, {"clusters": []}, "config: clusters has no entry named 'k'"),
        ({}, {"clusters": [{"name": "k", "cluster": None}]}, r"config: clusters\[k\]\.cluster\.server is missing"),
        ({"client-key-data": "%"}, {}, r"config: users\[u\]\.user\.client-key-data is not valid base64"),
        (
            {"client-certificate": "away"},
            {},
            r"user\.client-certificate refers to .*/away, which cannot be read: No such",
        ),
        (
            {"client-certificate-data": "UEVN"},
            {},
            "config: cannot use client-certificate-data with client-key-data",
        ),
        ({}, {"users": None}, "config: users has no entry named 'u'"),
    ],
)
def test_an_invalid_field_is_an_error(tmp_path, user, top, message):
    with pytest.raises(NoCredentials, match=message):
        find_credentials(kubeconfig(tmp_path, user, **top))


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("user", "tokenfile", "misspelt"),
        ("user", "impersonate", True),
        ("cluster", "certificate-authorities", "misspelt"),
    ],
)
def test_a_field_that_would_be_ignored_is_an_error(tmp_path, part, field, value):
    given = {"user": {"token": "t"}, "cluster": {}}
    given[part][field] = value
    place = {"user": r"users\[u\]\.user", "cluster": r"clusters\[k\]\.cluster"}[part]
    with pytest.raises(NoCredentials, match=rf"config: {place}\.{field} is not supported") as error:
        find_credentials(kubeconfig(tmp_path, given["user"], given["cluster"]))
    assert "canary" not in str(error.value)
    given[part][field] = type(value)()
    assert find_credentials(kubeconfig(tmp_path, given["user"], given["cluster"])).token == "t"


def test_fields_that_change_nothing_are_accepted(tmp_path):
    extensions = [{"name": "minikube.sigs.k8s.io", "extension": {"provider": "minikube"}}]
    cluster = {"extensions": extensions, "disable-compression": True, "server": "https://example.com"}
    assert find_credentials(kubeconfig(tmp_path, {"token": "t", "extensions": extensions}, cluster)).token == "t"


def test_an_invalid_certificate_authority_is_an_error(tmp_path):
    (tmp_path / "ca.crt").write_text("no certificate")
    with pytest.raises(NoCredentials, match=r"config: cannot use .*/ca\.crt: .*certificate"):
        find_credentials(kubeconfig(tmp_path, {}, {"certificate-authority": "ca.crt"}))


def test_a_missing_or_invalid_file_is_an_error(tmp_path):
    with pytest.raises(NoCredentials, match=r"cannot read kubeconfig .*/missing: No such file or directory"):
        find_credentials(str(tmp_path / "missing"))
    (tmp_path / "text").write_text("just text")
    with pytest.raises(NoCredentials, match="text is not a kubeconfig"):
        find_credentials(str(tmp_path / "text"))


def test_a_context_may_be_selected(tmp_path):
    contexts = [{"name": "mine", "context": {"cluster": "k", "user": "u"}}]
    assert find_credentials(kubeconfig(tmp_path, {"token": "t"}, contexts=contexts), "mine").token == "t"


def test_in_a_pod_the_service_account_is_used(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("sa")
    monkeypatch.setattr(kubeconfigs, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NoCredentials, match="KUBERNETES_SERVICE_HOST"):
        find_credentials()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = find_credentials()
    assert found.server == "https://[fd00::1]:443"
    assert found.headers() == (("Authorization", "Bearer sa"),)


def test_in_a_pod_a_context_and_the_variable_kubeconfig_come_before_the_service_account(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("sa")
    monkeypatch.setattr(kubeconfigs, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(
        NoCredentials, match=r"no kubeconfig has the context 'c', and .*config does not exist; set --ku"
    ):
        find_credentials(context="c")
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube", {"token": "default"})
    assert find_credentials(context="c").token == "default"
    assert find_credentials().token_file
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, {"token": "named"}))
    assert find_credentials().token == "named"


def test_without_credentials_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(kubeconfigs, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(NoCredentials, match=rf"{tmp_path}/.kube/config does not exist; set --kubeconfig"):
        find_credentials()
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube", {"token": "default"})
    assert find_credentials().token == "default"
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, {"token": "t"}))
    assert find_credentials().token == "t"


def test_a_missing_file_of_the_variable_kubeconfig_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(kubeconfigs, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBECONFIG", "/nope")
    with pytest.raises(NoCredentials, match="KUBECONFIG: cannot read kubeconfig /nope: No such file or directory"):
        find_credentials()
    monkeypatch.setenv("KUBECONFIG", "/nope:/away")
    with pytest.raises(NoCredentials, match="KUBECONFIG: cannot read kubeconfig /nope: No such file or directory"):
        find_credentials()


def test_without_a_home_directory_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(kubeconfigs, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(NoCredentials, match="--kubeconfig"):
        find_credentials()


def test_a_token_is_read_again_when_its_file_changed_or_it_was_rejected(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text("one")
    badge = TokenSource(find_credentials(kubeconfig(tmp_path, {"tokenFile": "token"})))
    assert badge.headers() == (("Authorization", "Bearer one"),)
    reads: list[object] = []
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda self, **how: (reads.append(self), read(self, **how))[1])
    for _ in range(100):
        badge.headers()
    assert reads == [], "the file is read once while it does not change"
    (tmp_path / "next").write_text("two")
    (tmp_path / "next").rename(file)  # as a kubelet does
    assert badge.headers() == (("Authorization", "Bearer two"),)
    assert badge.renew()
    badge.headers()
    assert len(reads) == 2


def test_without_a_token_file_there_is_nothing_to_read_again(tmp_path):
    badge = TokenSource(find_credentials(kubeconfig(tmp_path, {"token": "t"})))
    assert badge.headers() == (("Authorization", "Bearer t"),)
    assert not badge.renew()


def test_a_user_acts_as_somebody_else_with_the_headers_of_client_go(tmp_path):
    user = {"token": "t", "as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"x/y": ["1", "2"]}}
    assert find_credentials(kubeconfig(tmp_path, user)).headers()[1:] == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-x%2Fy", "1"),
        ("Impersonate-Extra-x%2Fy", "2"),
    )


def test_a_name_and_a_password_are_sent(tmp_path):
    found = find_credentials(kubeconfig(tmp_path, {"username": "jane", "password": "canary"}))
    assert found.headers() == (("Authorization", f"Basic {base64.b64encode(b'jane:canary').decode()}"),)
    assert "canary" not in repr(found)


@pytest.mark.parametrize(
    ("cluster", "environment", "proxy"),
    [
        ({"proxy-url": "http://p:1"}, {"NO_PROXY": "example.com"}, "http://p:1"),
        ({}, {"HTTPS_PROXY": "http://p:2"}, "http://p:2"),
        ({}, {"HTTPS_PROXY": "http://p:2", "NO_PROXY": ".com"}, ""),
        ({"server": "http://example.com"}, {"HTTPS_PROXY": "http://p:2"}, ""),
        ({"server": "https://127.0.0.1:6443"}, {"HTTPS_PROXY": "http://p:2"}, ""),
        ({"server": "https://localhost:6443"}, {"HTTPS_PROXY": "http://p:2"}, ""),
        ({"server": "https://127.0.0.1:6443", "proxy-url": "http://p:1"}, {}, "http://p:1"),
    ],
)
def test_the_proxy_is_that_of_the_cluster_else_that_of_the_environment(
    tmp_path, monkeypatch, cluster, environment, proxy
):
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert find_credentials(kubeconfig(tmp_path, {}, cluster)).proxy == proxy


@pytest.mark.parametrize("url", ["socks5://p", "https://p", "p:3128", "http://p:99999", "http://[p"])
def test_another_kind_of_proxy_is_an_error(tmp_path, url):
    with pytest.raises(NoCredentials, match=r"proxy-url \(or HTTPS_PROXY\) must be an http:// URL"):
        find_credentials(kubeconfig(tmp_path, {}, {"proxy-url": url}))


@pytest.mark.parametrize("rest", ["---\n", "---\nusers: [\n", "--- # more\nkind: List\n"])
def test_what_follows_the_first_document_is_not_read(tmp_path, rest):
    path = Path(kubeconfig(tmp_path, {"token": "t"}))
    path.write_text(f"---\n{path.read_text()}\n{rest}")
    assert find_credentials(str(path)).token == "t"


def test_of_two_files_the_first_with_an_entry_counts_and_missing_and_empty_ones_are_left_out(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = kubeconfig(tmp_path / "one", {"token": "first"}, clusters=[])
    second = kubeconfig(tmp_path / "two", {"token": "second"}, {"server": "https://two"}, **{"current-context": "d"})
    monkeypatch.setattr(kubeconfigs, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "empty").write_text("# nothing yet\n")
    monkeypatch.setenv("KUBECONFIG", f"/away:{tmp_path / 'empty'}:{first}:{second}")
    found = find_credentials()
    assert (found.server, found.token) == ("https://two", "first")
    with pytest.raises(NoCredentials, match=r"one/config, .*two/config: contexts has no entry named 'none'"):
        find_credentials(context="none")

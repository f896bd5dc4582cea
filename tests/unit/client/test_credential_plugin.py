"""Credential plugins are run as kubectl runs them; their errors are one sentence, and name them."""

from __future__ import annotations

import json
import ssl
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import Event

import pytest
import yaml

from testbed.certificates import Authority
from trainshed.client import credentials
from trainshed.client.credential_plugin import ask
from trainshed.client.credentials import RETRY_DELAY, Credentials, NoCredentials, Plugin, PluginAnswer, TokenSource
from trainshed.client.kubeconfig import find_credentials

API = "client.authentication.k8s.io/v1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def plugin(code: str, **fields) -> dict:
    """An `exec` section whose program is some Python."""
    return {"apiVersion": API, "command": sys.executable, "args": ["-c", code], **fields}


def saying(status: object, **answer) -> str:
    """A program that prints an answer."""
    return f"print({json.dumps({'apiVersion': API, 'kind': 'ExecCredential', 'status': status} | answer)!r})"


def test_a_plugin_gets_what_its_section_says_and_gives_a_token(tmp_path):
    code = """
import json, os
exec_info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
text = " ".join((os.environ["A"], exec_info["spec"]["cluster"]["server"], os.getcwd()))
print(json.dumps({**exec_info, "status": {"token": text, "expirationTimestamp": "2026-01-01T00:00:05"}}))
"""
    spec = plugin(code, env=[{"name": "A", "value": "b"}], provideClusterInfo=True, interactiveMode="Never")
    found = ask(spec, {"server": "https://k"}, tmp_path)
    assert found == PluginAnswer(f"b https://k {tmp_path}", expires=NOW + timedelta(seconds=5))
    assert found.token not in repr(found)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (plugin("raise SystemExit('log in\\nfirst')"), "failed: exec: process returned 1. log in first"),
        (plugin("print('canary')"), "failed: exec: failed to decode process output"),
        (plugin(saying({})), "gives neither a token nor a certificate with its key"),
        (plugin(saying({"clientCertificateData": "a"})), "gives neither a token nor a certificate with its key"),
        (plugin(saying({"token": "canary\n"})), "gives a token that cannot be sent: it must be printable text"),
        (plugin(saying({"token": 7})), r"is invalid \(AttributeError\)"),
        (plugin(saying("canary")), r"is invalid \(AttributeError\)"),
        (plugin(saying({"token": "canary", "expirationTimestamp": "soon"})), r"is invalid \(ValueError\)"),
        (plugin(saying({"token": "canary"}, apiVersion="v2")), "failed: exec: plugin api version v2 does not match"),
        ({"apiVersion": API, "command": "away", "installHint": "brew it"}, r"away is not there \(No such.*: brew it"),
        ({"apiVersion": API}, "None failed: exec: malformed request. missing key 'command'"),
        (plugin("", env=["A"]), r"is invalid \(TypeError\)"),
    ],
)
def test_a_plugin_that_gives_no_credentials_is_an_error_of_one_line(tmp_path, spec, message):
    with pytest.raises(NoCredentials, match=message) as error:
        ask(spec, {}, tmp_path)
    assert "canary" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_plugin_is_asked_again_when_its_answer_expires_or_is_rejected():
    now, answers = [NOW], iter([PluginAnswer(str(number), expires=NOW + timedelta(number)) for number in range(1, 4)])
    asked = Plugin(lambda: next(answers), lambda: now[0])
    source = TokenSource(Credentials("https://k", plugin=asked))
    seen = []
    later = NOW + timedelta(1)
    for moment, rejected in ((NOW, False), (later, False), (later, True), (later, True), (later + RETRY_DELAY, False)):
        now[0] = moment
        assert not rejected or source.renew()
        seen.append(source.headers()[0][1])
    assert seen == ["Bearer 1", "Bearer 2", "Bearer 3", "Bearer 3", "Bearer 3"], "not again at once"


def test_while_a_plugin_fails_its_last_answer_is_used_and_it_is_not_run_for_each_request(caplog):
    answers = [PluginAnswer("one", expires=NOW)]

    def given() -> PluginAnswer:
        if answers:
            return answers.pop()
        raise NoCredentials("log in again")

    source = TokenSource(Credentials("https://k", plugin=Plugin(given, lambda: NOW)))
    for _ in range(100):
        assert source.headers() == (("Authorization", "Bearer one"),)
    assert caplog.text.count("log in again") == 1


def test_a_plugin_that_hangs_holds_up_the_process_once_and_for_a_moment(monkeypatch):
    monkeypatch.setattr(credentials, "PATIENCE", 0.05)
    hangs, asked = Event(), []

    def given() -> PluginAnswer:
        asked.append(None)
        if len(asked) > 1:
            hangs.wait(30)
        return PluginAnswer(str(len(asked)), expires=NOW if len(asked) == 1 else None)

    moments = count()
    found = Plugin(given, lambda: NOW + next(moments) * RETRY_DELAY)
    began = time.monotonic()
    assert [found.answer().token for _ in range(100)] == ["1"] * 100
    assert time.monotonic() - began < 10
    assert len(asked) == 2
    hangs.set()
    while found.answer().token == "1":
        time.sleep(0.01)


def test_a_plugin_may_give_a_certificate_and_then_another(tmp_path):
    authority = Authority(tmp_path)
    authority.make()
    authority.sign("user", "user")
    pair = [(tmp_path / f"user.{part}").read_bytes() for part in ("crt", "key")]
    answers = [PluginAnswer(certificate=b"broken", key=b"broken"), PluginAnswer(certificate=pair[0], key=pair[1])]
    found = Credentials("https://k", plugin=Plugin(answers.pop))
    context = found.tls()
    before = found.versions()
    found.plugin.answer(rejected=True)
    assert found.versions() != before, "new connections use the new certificate"
    with pytest.raises(NoCredentials, match="cannot use client-certificate-data"):
        found.load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    assert context is not None


def test_a_plugin_is_not_asked_if_the_user_has_a_token(tmp_path):
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://k"}}],
        "users": [{"name": "u", "user": {"token": "t", "exec": plugin("raise SystemExit(1)")}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    assert find_credentials(str(tmp_path / "config")).plugin is None

"""`trainshed get --watch --notify` sends what is new, once, and no URL is printed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from unittest import mock

import pytest
from click.testing import CliRunner

from support.inbox import inbox
from support.listed_cluster import listed_cluster
from trainshed.api.job import JobKey
from trainshed.cli import cli, watch_messages
from trainshed.cli.connection import ClusterOptions, connected
from trainshed.cli.watch_messages import Messenger, WatchMessage
from trainshed.notify import news
from trainshed.notify.news import News

RESOURCES = {"resources": [{"kind": "PyTorchJob", "name": "pytorchjobs"}]}
SERVICE = "json://127.0.0.1:1/hidden"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def seen(state: str, since: float = 0, uid: str = "u") -> WatchMessage:
    """What a watch sees of a job in a state, since so many seconds after noon."""
    found = News(state, NOW + timedelta(seconds=since)) if state else None
    return WatchMessage(JobKey("ml", "PyTorchJob", "mnist"), uid, found, f"pytorchjob/mnist is {state}")


@pytest.fixture
async def messenger(tmp_path) -> AsyncIterator[Messenger]:
    """One whose messages go nowhere; `sent` has the uids of their jobs."""
    with listed_cluster(tmp_path, {}) as kubeconfig:
        async with connected(ClusterOptions(str(kubeconfig), "", "ml")) as cluster:
            found = Messenger(cluster.reader, [SERVICE])
            found.sent = asyncio.Queue()

            async def send_all() -> None:
                while True:
                    await found.sent.put((await found._waiting.get())[0].uid)

            found._send_all = send_all
            yield found


async def test_what_is_known_or_sent_is_not_sent_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(watch_messages, "MOST_WAITING", 4)
    known, running, recovered = seen("Running", uid="k"), seen("Running"), seen("Running", 3)
    with listed_cluster(tmp_path, {}) as kubeconfig:
        async with connected(ClusterOptions(str(kubeconfig), "", "ml")) as cluster:
            messenger = Messenger(cluster.reader, [SERVICE])
            messenger._now = lambda: NOW + timedelta(seconds=60)
            messenger.begin([known, seen("", uid="n")])
            of_a_job = (running, running, seen("Restarting", 1), seen("Restarting", 2), recovered, seen("Failed", 4))
            for item in (known, *of_a_job, of_a_job[-1], known, seen(""), seen("Running", -4000, uid="old")):
                messenger.take(item)
            messenger.take(seen("Running", uid="last"))
            waiting = [messenger._waiting.get_nowait() for _ in range(messenger._waiting.qsize())]
    states = ["Running", "Restarting", "Running", "Failed"]
    assert [(found.state, item.uid) for item, found in waiting] == [(state, "u") for state in states]
    assert capsys.readouterr().err == "Not sent: pytorchjob/mnist is Running: too many messages wait\n"


async def test_what_is_new_is_sent_although_the_clock_of_the_operator_is_before_this_one(messenger):
    messenger._now = lambda: NOW
    messenger.take(seen("Failed", 90))
    assert messenger._waiting.get_nowait()[1].state == "Failed"


async def test_a_job_that_still_restarts_after_a_while_is_sent_again(messenger, monkeypatch):
    monkeypatch.setattr(news, "TOGETHER", timedelta(seconds=0.2))
    begun = asyncio.get_running_loop().time()
    messenger._now = lambda: NOW + timedelta(seconds=asyncio.get_running_loop().time() - begun)
    async with messenger.sending():
        for item in (seen("Restarting"), seen("Restarting", 0.1), seen("Restarting", uid="v")):
            messenger.take(item)
        messenger.take(seen("Restarting", 0.1, uid="v"))
        messenger.take(seen("", uid="v"))
        sent = [await messenger.sent.get() for _ in range(3)]
    assert sent == ["u", "v", "u"], "a job that has no news any more is not sent again"


async def test_an_error_of_what_sends_ends_the_watch(messenger):
    messenger._send_all = mock.AsyncMock(side_effect=LookupError)
    with pytest.raises(ExceptionGroup):
        async with messenger.sending():
            await asyncio.Event().wait()


async def test_a_message_that_is_not_taken_is_named_without_its_url(tmp_path, capfd):
    with listed_cluster(tmp_path, {}) as kubeconfig, inbox() as (url, got):
        async with connected(ClusterOptions(str(kubeconfig), "", "ml")) as cluster:
            messenger = Messenger(cluster.reader, [SERVICE, url.replace("http", "json")])
            messenger._now = lambda: NOW
            messenger.take(seen("Failed"))
            said = ""
            async with messenger.sending():
                while not said:
                    await asyncio.sleep(0.05)
                    said = capfd.readouterr().err
    assert said == "Not sent, or not taken by service 1 (json): Failed: PyTorchJob ml/mnist\n"
    assert [(sent["title"], sent["message"]) for sent in got] == [
        ("Failed: PyTorchJob ml/mnist", "pytorchjob/mnist is Failed")
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--watch", "--notify", "nonsense:hidden"), "Invalid value for --notify: URL 1 is of no service that apprise"),
        (("--watch", "--notify", SERVICE, "--notify", "x://hidden"), "URL 2 is of no service that apprise knows"),
        (("--notify", SERVICE), "--notify sends what changes: add --watch"),
    ],
)
def test_a_url_that_cannot_be_used_is_not_printed(tmp_path, words, said):
    with listed_cluster(tmp_path, {"v1": RESOURCES}) as kubeconfig:
        done = CliRunner().invoke(cli, ["get", "--kubeconfig", str(kubeconfig), *words])
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert "hidden" not in done.output

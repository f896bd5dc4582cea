"""Logs of replicas for a page: the last lines, those that follow, slow pages, and files of a run on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.virtual_time import clock, in_virtual_time
from trainshed.local.output import Output
from trainshed.local.runtimes import log_file
from trainshed.process import Clock
from trainshed.ui import log_reading
from trainshed.ui.log_files import RunLogs
from trainshed.ui.log_filters import LogFilters
from trainshed.ui.log_live import LogMessage, LogPage, view
from trainshed.ui.log_reading import MOST_AT_ONCE, MOST_WAITING, LogFollower, WaitingLines, chosen, last_lines
from trainshed.ui.replica_logs import LogPod, LogQuery, RawLine


def a_log_pod(replica: str, *, runs: bool = True, gone: bool = False, has_started: bool = True) -> LogPod:
    return LogPod(f"uid-{replica}", f"mnist-{replica}", "ml", replica, "pytorch", has_started, runs, gone)


MASTER, WORKER = a_log_pod("master-0"), a_log_pod("worker-0")


def write(logs: Output, replica: str, *lines: str) -> None:
    if logs.log(f"mnist-{replica}", "pytorch") is None:
        logs.begin(a_pod(replica), "pytorch")
    logs.write(a_pod(replica), "pytorch", "".join(f"{line}\n" for line in lines).encode())


def a_pod(replica: str, uid: str = "") -> dict:
    """A pod of a run on this machine."""
    metadata = {"name": f"mnist-{replica}", "uid": uid or f"uid-{replica}", "labels": {}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "pytorch"}]}}


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Output]:
    """The output of a run on this machine, whose master and worker run."""
    found = Output(tmp_path, only=("none",), write=lambda _: None)
    found.begin(a_pod("worker-0"), "pytorch")
    found.begin(a_pod("master-0"), "pytorch")
    yield found
    found.close()


async def texts(logs: Output, query: LogQuery, after: str = "", pod: LogPod = WORKER) -> list[bytes]:
    async with aclosing(RunLogs(logs.log).open(pod, query, after).lines()) as lines:
        return [text async for _, text in lines]


# ----------------------------------------------------------------------------------------- a run on this machine


async def test_a_log_is_read_from_its_last_lines_on(logs: Output):
    write(logs, "worker-0", *(f"step {number}" for number in range(10)))
    assert await texts(logs, LogQuery(3)) == [b"step 7", b"step 8", b"step 9"]


async def test_a_log_is_read_on_from_where_it_was_though_its_file_was_set_aside(
    logs: Output, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_file, "LARGEST", 10)
    write(logs, "worker-0", "one", "two")
    log = RunLogs(logs.log).open(WORKER, LogQuery(10))
    assert [text async for _, text in log.lines()] == [b"one", b"two"]
    for text in ("three", "four", "five"):
        write(logs, "worker-0", text)
    assert await texts(logs, LogQuery(10), log.last) == [b"three", b"four", b"five"]
    assert await texts(logs, LogQuery(2)) == [b"four", b"five"]


async def test_what_is_no_longer_kept_is_left_out(logs: Output, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_file, "LARGEST", 10)
    for number in range(20):
        write(logs, "worker-0", f"step {number:03}")
    assert await texts(logs, LogQuery(100)) == [f"step {number:03}".encode() for number in range(12, 20)]


async def test_each_line_has_the_time_at_which_it_was_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    now = [datetime(2026, 1, 1, 12, 0, second, 500_000, UTC) for second in range(3)]
    monkeypatch.setattr(Clock, "now", lambda _: now.pop(0))
    later = Output(tmp_path, only=("none",), write=lambda _: None)
    later.begin(a_pod("late"), "pytorch")
    for text in ("step 1\n", "step 2\nst", "ep 3\n"):
        later.write(a_pod("late"), "pytorch", text.encode())
    async with aclosing(RunLogs(later.log).open(a_log_pod("late"), LogQuery(9)).lines()) as lines:
        assert [found async for found in lines] == [
            ("2026-01-01T12:00:00.500Z", b"step 1"),
            ("2026-01-01T12:00:01.500Z", b"step 2"),
            ("2026-01-01T12:00:01.500Z", b"step 3"),
        ]
    later.close()


async def test_a_line_without_end_is_cut_and_the_last_one_is_read_when_the_container_has_ended(logs: Output):
    logs.write(a_pod("worker-0"), "pytorch", b"x" * 1_000_000)
    logs.end(a_pod("worker-0"), "pytorch")
    found = await texts(logs, LogQuery(10))
    assert (len(b"".join(found)), max(map(len, found)) <= 1 << 16) == (1_000_000, True)


async def test_a_line_that_is_not_complete_is_read_but_a_page_that_follows_waits_for_its_end(logs: Output):
    logs.write(a_pod("worker-0"), "pytorch", b"step 1\nstep")
    assert await texts(logs, LogQuery(10)) == [b"step 1", b"step"]
    async with aclosing(RunLogs(logs.log).open(WORKER, LogQuery(10, follow=True)).lines()) as lines:
        assert (await anext(lines))[1] == b"step 1"
        following = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0)
        logs.write(a_pod("worker-0"), "pytorch", b" 2\n")
        assert (await following)[1] == b"step 2"


async def test_a_file_that_is_gone_is_a_problem(logs: Output, tmp_path: Path):
    write(logs, "worker-0", "step 1")
    (tmp_path / "mnist-worker-0.log").unlink()
    log = RunLogs(logs.log).open(WORKER, LogQuery(10))
    assert [line async for line in log.lines()] == []
    assert log.problem == "the file cannot be read: No such file or directory"


async def test_a_container_that_has_not_run_has_no_lines(logs: Output):
    assert await texts(logs, LogQuery(10), pod=a_log_pod("worker-9")) == []


async def test_the_runs_of_a_container_are_distinguished_in_one_pod_and_in_the_pods_after_it(logs: Output):
    for text in ("first", "second"):
        logs.begin(a_pod("w", "uid-1"), "pytorch")
        logs.write(a_pod("w", "uid-1"), "pytorch", text.encode())
        logs.end(a_pod("w", "uid-1"), "pytorch")
    first, second = (replace(a_log_pod("w"), uid=uid) for uid in ("uid-1", "uid-2"))
    previous = LogQuery(10, previous=True)
    assert await texts(logs, previous, pod=first) == [b"first"]
    logs.begin(a_pod("w", "uid-2"), "pytorch")
    assert await texts(logs, LogQuery(10), pod=first) == [b"first", b"second"]
    assert await texts(logs, LogQuery(1), pod=first) == [b"second"]
    assert await texts(logs, LogQuery(10), pod=second) == []
    assert (await texts(logs, previous, pod=first), await texts(logs, previous, pod=second)) == ([], [b"second"])


async def test_the_log_of_a_pod_that_has_ended_is_followed_to_its_end_only(logs: Output):
    write(logs, "worker-0", "step 1")
    logs.end(a_pod("worker-0"), "pytorch")
    assert await texts(logs, LogQuery(10, follow=True)) == [b"step 1"]


# ----------------------------------------------------------------------------------------------------- the last lines


async def test_the_last_lines_of_all_replicas_are_those_that_are_wanted(logs: Output):
    write(logs, "master-0", *(f"step {number}" for number in range(100)))
    write(logs, "worker-0", "step 5", "loss 1")
    found = await last_lines(RunLogs(logs.log), [MASTER, WORKER], LogFilters(text="STEP 5"))
    assert [(line.replica, line.text) for line in found.lines] == [
        ("master-0", "step 5"),
        *(("master-0", f"step {number}") for number in range(50, 60)),
        ("worker-0", "step 5"),
    ]
    few = await last_lines(RunLogs(logs.log), [MASTER, WORKER], LogFilters(lines=2))
    assert [line.text for line in few.lines] == ["step 5", "loss 1"]


async def test_what_cannot_be_read_is_said_and_the_rest_is_shown(logs: Output, tmp_path: Path):
    write(logs, "worker-0", "step 1")
    write(logs, "master-0", "step 1")
    (tmp_path / "mnist-master-0.log").unlink()
    found = await view("/x", RunLogs(logs.log), [MASTER, WORKER], LogFilters())
    assert [line.text for line in found.lines] == ["step 1"]
    assert found.said == ("master-0: the file cannot be read: No such file or directory",)


async def test_lines_without_end_are_read_within_a_number_of_bytes(logs: Output, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_reading, "MOST_BYTES", 10_000)
    write(logs, "worker-0", *("x" * 1_000 for _ in range(100)))
    found = await last_lines(RunLogs(logs.log), [WORKER], LogFilters())
    assert len(found.lines) == 11


@pytest.mark.parametrize(
    ("pods", "filters", "replicas", "said"),
    [
        ([], LogFilters(), [], "The job has no pods, and so no logs."),
        ([MASTER, WORKER], LogFilters(("worker-0",)), ["worker-0"], ""),
        ([MASTER], LogFilters(("mnist-master-0",)), ["master-0"], ""),
        ([MASTER], LogFilters(("worker-9",)), [], "There is no pod of worker-9."),
        ([a_log_pod("w", gone=True)], LogFilters(), [], "The logs of 1 deleted pod went with it."),
        ([a_log_pod("w", has_started=False)], LogFilters(), [], "No container has started yet: w."),
    ],
)
def test_replicas_are_chosen_and_why_others_are_not_shown(
    pods: Sequence[LogPod], filters: LogFilters, replicas: list[str], said: str
):
    found, why = chosen(pods, filters, outlive=False)
    assert ([pod.replica for pod in found], " ".join(why)) == (replicas, said)


def test_files_outlive_their_pods():
    assert chosen([a_log_pod("w", gone=True)], LogFilters(), outlive=True)[1] == []


# ---------------------------------------------------------------------------------------------------------- following


def test_a_slow_page_gets_the_number_of_lines_that_were_left_out():
    waiting = WaitingLines()
    for number in range(MOST_WAITING + 12_000):
        waiting.add(RawLine("", "w", str(number)))
    left_out, lines = waiting.take()
    assert (left_out, len(lines), lines[0].text) == (12_000, MOST_AT_ONCE, "12000")
    assert waiting.take()[0] == 0


async def until(follower: LogFollower, number: int) -> list[str]:
    found: list[RawLine] = []
    async with asyncio.timeout(30):
        while len(found) < number:
            await follower.waiting.news.wait()
            found += follower.waiting.take()[1]
    return [line.text for line in found]


async def test_lines_of_replicas_and_of_new_ones_are_followed(logs: Output, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_reading, "POLL_SECONDS", 0.01)
    write(logs, "master-0", "old")
    pods = [MASTER]
    before = await last_lines(RunLogs(logs.log), pods, LogFilters())
    follower = LogFollower(RunLogs(logs.log), lambda: pods, LogFilters(text="step"), before.known)
    following = asyncio.create_task(follower.run())
    write(logs, "master-0", "step 1", "loss")
    assert await until(follower, 1) == ["step 1"]
    write(logs, "worker-0", "step 2")
    pods.append(a_log_pod("worker-0", runs=False))
    assert await until(follower, 1) == ["step 2"]
    following.cancel()


async def test_a_page_follows_a_limited_number_of_replicas(logs: Output, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_reading, "MOST_FOLLOWED", 2)
    pods = [a_log_pod(f"worker-{number}") for number in range(5)]
    for pod in pods:
        write(logs, pod.replica, "a line")
    follower = LogFollower(RunLogs(logs.log), lambda: pods, LogFilters(), {})
    following = asyncio.create_task(follower.run())
    assert await until(follower, 2) == ["a line", "a line"]
    assert follower.left == 3
    following.cancel()


class AJob:
    """The job of a page: its pods and what is around its lines, None once nothing of it may be shown."""

    def __init__(self) -> None:
        self.parts: dict[str, str] | None = {"notices": "<div></div>"}

    def pods(self) -> list[LogPod]:
        return [WORKER]

    def around(self) -> dict[str, str] | None:
        return self.parts


async def test_a_page_gets_the_last_lines_in_parts_and_then_what_is_written(logs: Output):
    write(logs, "worker-0", *(f"step {number}" for number in range(1_200)))
    page = LogPage("/x", RunLogs(logs.log), AJob(), LogFilters(lines=10_000))
    found: list[LogMessage] = []
    async with asyncio.timeout(30), aclosing(page.messages()) as messages:
        async for message in messages:
            found.append(message)
            if message.ready:
                write(logs, "worker-0", "the next")
            if "the next" in message.html:
                break
    assert found[0].reset
    assert [message.html.count("<p") for message in found[1:4]] == [500, 500, 200]
    assert "1,200 lines of 1 replica" in found[0].state


def test_what_is_around_the_lines_is_sent_when_it_changes_until_the_job_may_not_be_shown(logs: Output):
    write(logs, "worker-0", "step 1")
    job, found = AJob(), list[dict[str, str]]()

    async def watched() -> None:
        async for message in LogPage("/x", RunLogs(logs.log), job, LogFilters()).messages():
            if message.parts:
                found.append(dict(message.parts))
                job.parts = {"notices": "<div><p>gone</p></div>"} if len(found) == 1 else None

    in_virtual_time(watched())
    assert found == [{"notices": "<div></div>"}, {"notices": "<div><p>gone</p></div>"}]


def test_the_run_before_the_last_restart_is_not_followed_and_not_read_again(logs: Output):
    write(logs, "worker-0", "step 1")
    logs.begin(a_pod("worker-0"), "pytorch")
    write(logs, "worker-0", "step 2")

    async def messages() -> list[LogMessage]:
        page = LogPage("/x", RunLogs(logs.log), AJob(), LogFilters(previous=True))
        found: list[LogMessage] = []
        async with aclosing(page.messages()) as unending:
            async for message in unending:
                found.append(message)
                if len(found) > 5:
                    break
        return found

    found = in_virtual_time(messages())
    assert [number for number, message in enumerate(found) if message.reset] == [0]
    assert [("step 1" in message.html, "step 2" in message.html) for message in found if message.html] == [
        (True, False)
    ]


class ScriptedLogs:
    """Logs whose n-th opening by a follower does what a script says: lines, and a problem or silence after them."""

    outlive = False

    def __init__(self, *script: tuple[list[str], str]) -> None:
        self.script, self.opened = list(script), list[float]()

    def open(self, pod: LogPod, query: LogQuery, after: str = "") -> ScriptedLog:
        self.opened.append(clock())
        return ScriptedLog(*(self.script.pop(0) if self.script else ([], "")))


class ScriptedLog:
    def __init__(self, texts: list[str], problem: str) -> None:
        self._texts, self._problem = texts, problem
        self.last = self.problem = ""

    async def lines(self):
        for text in self._texts:
            yield "", text.encode()
        if not self._problem:
            await asyncio.sleep(3600)
        self.problem = self._problem


def test_the_right_to_a_log_is_asked_again_and_its_loss_is_said_until_it_is_back():
    logs = ScriptedLogs(([], ""), ([], "you may not read logs"), ([], ""))

    async def story() -> None:
        follower = LogFollower(logs, lambda: [WORKER], LogFilters(), {})
        following = asyncio.create_task(follower.run())
        await asyncio.sleep(log_reading.LASTS - 1)
        assert (len(logs.opened), follower.problems) == (1, {})
        await asyncio.sleep(3)
        assert follower.problems == {"worker-0": "you may not read logs"}
        await asyncio.sleep(log_reading.AGAIN + log_reading.PROVEN + 2)
        assert follower.problems == {}, "the log is open, though it says nothing"
        following.cancel()

    in_virtual_time(story())


def test_the_first_line_after_a_problem_takes_it_back():
    logs = ScriptedLogs(([], "no answer"), (["step 1"], ""))

    async def story() -> None:
        follower = LogFollower(logs, lambda: [WORKER], LogFilters(), {})
        following = asyncio.create_task(follower.run())
        await asyncio.sleep(1)
        assert follower.problems == {"worker-0": "no answer"}
        assert await until(follower, 1) == ["step 1"]
        assert follower.problems == {}
        following.cancel()

    in_virtual_time(story())

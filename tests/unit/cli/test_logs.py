"""`trainshed logs` prints the output of all replicas together, across interruptions, restarts and new pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import pytest

from support.builders import a_pod
from support.builders import at as at_second
from support.virtual_time import clock, in_virtual_time
from trainshed.api.objects import Container, Pod
from trainshed.cli import log_follower, logs
from trainshed.cli.connection import Cluster
from trainshed.cli.logs import Wanted
from trainshed.client import ApiError, Forbidden, TooManyRequests, Unavailable
from trainshed.client.job_reader import JobKind

KIND = JobKind("PyTorchJob", "pytorchjobs", "/apis/kubeflow.org/v1")
CONTAINERS = [{"name": "sidecar"}, {"name": "pytorch"}]
JOB = {
    "kind": "PyTorchJob",
    "metadata": {"name": "mnist", "namespace": "ml", "uid": "job-uid"},
    "spec": {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"containers": CONTAINERS}}}}},
}
SUCCEEDED = {"type": "Succeeded", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}


def at(second: int, text: str) -> bytes:
    return f"2026-01-01T12:00:{second:02}.5Z {text}".encode()


@dataclass
class Replies:
    """A cluster: `steps` are its pods at each read, the last one with the end of the job; `answers` are logs."""

    steps: list[tuple[Pod, ...]]
    answers: dict[str, list[list[bytes | float | ApiError]]]
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    reads: int = 0

    async def find(self, _namespace: str, _name: str) -> tuple[dict, JobKind]:
        return JOB, KIND

    async def job(self, *_: object) -> dict | None:
        self.reads += 1
        over = self.reads >= len(self.steps)
        return {**JOB, "status": {"conditions": [SUCCEEDED] if over else []}}

    async def pods(self, _job: dict) -> tuple[Pod, ...]:
        return self.steps[min(max(self.reads, 1), len(self.steps)) - 1]

    async def log(self, _namespace: str, pod: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        self.asked.append((pod, query))
        for item in self.answers[pod].pop(0) if self.answers[pod] else []:
            if isinstance(item, ApiError):
                raise item
            if isinstance(item, float):
                await asyncio.sleep(item)
            else:
                yield item


def wanted(**fields) -> Wanted:
    known = {"follow": False, "grep": None, "since": None, "tail": None, "replicas": ()}
    return Wanted(**(known | {"previous": False, "timestamps": False} | fields))


def printed(replies: Replies, capsys, **fields) -> tuple[int, list[str], str]:
    """The exit code, the lines and the errors of the command."""
    code = in_virtual_time(logs._logs(Cluster(replies, "ml", None), "mnist", wanted(**fields)))
    found = capsys.readouterr()
    return code, found.out.splitlines(), found.err


WORKERS = (a_pod("worker-0"), a_pod("worker-1"))


def test_lines_of_all_replicas_are_in_the_order_of_their_times(capsys):
    zero, one = [at(1, "a"), at(4, "d")], [at(2, "b"), at(3, "c")]
    replies = Replies([WORKERS], {"mnist-worker-0": [zero], "mnist-worker-1": [one]})
    code, lines, _ = printed(replies, capsys)
    assert (code, lines) == (0, ["worker-0 | a", "worker-1 | b", "worker-1 | c", "worker-0 | d"])


def test_what_is_wanted_is_asked_for(capsys):
    replies = Replies([WORKERS], {"mnist-worker-1": [[at(1, "loss=1"), at(2, "step")]]})
    fields = {"replicas": ("worker-1",), "tail": 5, "since": 90.4, "timestamps": True}
    _, lines, _ = printed(replies, capsys, grep=logs.pattern("los+"), **fields)
    assert lines == ["worker-1 | 2026-01-01T12:00:01.5Z loss=1"]
    ((pod, query),) = replies.asked
    assert pod == "mnist-worker-1"
    assert query == {
        "container": "tensorflow",
        "timestamps": "true",
        "follow": "false",
        "sinceSeconds": "90",
        "tailLines": "5",
    }


@pytest.mark.parametrize(("named", "asked"), [("", "pytorch"), ("proxy", "proxy"), ("setup", "setup")])
@pytest.mark.parametrize("follow", [False, True])
def test_the_container_that_trains_is_meant_also_behind_those_that_are_injected(capsys, named, asked, follow):
    started = {"started": at_second(0)}
    names = [Container("setup", init=True, **started), Container("proxy", **started), Container("pytorch", **started)]
    replies = Replies([(a_pod("worker-0", containers=tuple(names), phase="Succeeded"),)] * 2, {"mnist-worker-0": []})
    printed(replies, capsys, container=named, follow=follow)
    assert [query["container"] for _, query in replies.asked] == [asked]


def test_a_log_that_cannot_be_read_is_named_and_the_others_are_printed(capsys):
    refused = Forbidden("pods/log is forbidden")
    replies = Replies([WORKERS], {"mnist-worker-0": [[refused]], "mnist-worker-1": [[at(1, "a")]]})
    assert printed(replies, capsys) == (0, ["worker-1 | a"], "worker-0: pods/log is forbidden\n")
    replies = Replies([WORKERS[:1]], {"mnist-worker-0": [[refused]]})
    assert printed(replies, capsys)[0] == 1


@pytest.mark.parametrize("trouble", [Unavailable("no response within 90 s"), TooManyRequests("wait")])
def test_following_goes_on_after_an_interruption_where_it_was(capsys, trouble):
    first = [at(1, "a"), at(2, "b"), trouble]
    again = [at(2, "b"), at(3, "c")]
    over = (a_pod("worker-0", "Succeeded", code=0),)
    replies = Replies([WORKERS[:1]] * 4 + [over], {"mnist-worker-0": [first, again]})
    code, lines, _ = printed(replies, capsys, follow=True, tail=10)
    assert (code, lines) == (0, ["worker-0 | a", "worker-0 | b", "worker-0 | c"])
    assert [query.get("sinceTime") for _, query in replies.asked][:2] == [None, "2026-01-01T12:00:02.5Z"]


def test_a_line_without_a_time_is_printed_once_and_hides_no_later_one(capsys):
    note = b"unable to retrieve container logs for containerd://1"
    over = (a_pod("worker-0", "Succeeded", code=0),)
    replies = Replies(
        [WORKERS[:1]] * 6 + [over], {"mnist-worker-0": [[note], [note], [at(1, "a"), note], [at(2, "b")]]}
    )
    _, lines, _ = printed(replies, capsys, follow=True)
    assert lines == [f"worker-0 | {note.decode()}", "worker-0 | a", "worker-0 | b"]
    assert {query.get("sinceTime", "")[:4] for _, query in replies.asked} == {"", "2026"}


def test_the_logs_of_all_replicas_are_asked_for_at_once(capsys):
    pods = tuple(a_pod(f"worker-{number}") for number in range(9))
    replies = Replies([pods], {pod.name: [[30.0, at(1, "a")]] for pod in pods})

    async def story() -> float:
        began = clock()
        await logs._logs(Cluster(replies, "ml", None), "mnist", wanted())
        return clock() - began

    assert in_virtual_time(story()) < 60
    assert len(capsys.readouterr().out.splitlines()) == 9


def test_following_reads_the_pod_that_replaces_another(capsys):
    old, new = a_pod("worker-0", uid="old"), a_pod("worker-0", uid="new")
    ended = a_pod("worker-0", "Succeeded", uid="new", code=0)
    answers = {"mnist-worker-0": [[at(1, "old")], [at(5, "new")]]}
    _, lines, _ = printed(Replies([(old,), (old,), (new,), (new,), (ended,)], answers), capsys, follow=True)
    assert lines == ["worker-0 | old", "worker-0 | new"]


@pytest.mark.parametrize("follow", [False, True])
def test_a_hostile_line_is_one_harmless_line(capsys, follow):
    hostile = at(1, "x\x1b[2Jy\x9b31m\u202ez\r")
    over = (a_pod("worker-0", "Succeeded", code=0),)
    _, lines, _ = printed(Replies([over], {"mnist-worker-0": [[hostile]]}), capsys, follow=follow)
    assert lines == ["worker-0 | xyz"]


def test_without_pods_nothing_can_be_printed(capsys):
    code, lines, errors = printed(Replies([()], {}), capsys)
    assert (code, lines) == (1, [])
    assert "The logs of earlier pods went with them." in errors


def test_a_replica_that_does_not_exist_is_named_with_those_that_do(capsys):
    code, _, errors = printed(Replies([(a_pod("worker-0", "Running"),)], {}), capsys, replicas=("worker-7",))
    assert (code, errors) == (1, "There is no pod of worker-7; there are pods of worker-0.\n")


def test_following_ends_soon_after_the_job_though_a_pod_runs_on(capsys):
    server = a_pod("ps-0", "Running")
    stopping = a_pod("worker-1", "Running", deleting=True)
    over = a_pod("worker-0", "Succeeded", code=0)
    lasting = [at(1, "1"), 3.0, at(2, "2"), 1e6]
    answers = {"mnist-worker-0": [[at(1, "a")]], "mnist-ps-0": [lasting], "mnist-worker-1": [[1e6]]}

    async def story(*pods: Pod) -> tuple[int, float]:
        began = clock()
        replies = Replies([pods], {pod.name: [list(answer) for answer in answers[pod.name]] for pod in pods})
        return await logs._logs(Cluster(replies, "ml", None), "mnist", wanted(follow=True)), clock() - began

    code, seconds = in_virtual_time(story(over, server))
    assert (code, seconds) == (0, pytest.approx(log_follower.RUNNING_ON, abs=2))
    found = capsys.readouterr()
    assert found.out.splitlines() == ["ps-0     | 1", "worker-0 | a", "ps-0     | 2"]
    assert found.err.endswith("as they run on: ps-0\n")
    _, seconds = in_virtual_time(story(over, stopping))
    assert seconds == pytest.approx(log_follower.STOPPING, abs=2)


def test_the_pods_are_read_once_for_all_that_are_followed(capsys):
    pods = tuple(a_pod(f"worker-{number}", "Running") for number in range(20))
    over = tuple(a_pod(f"worker-{number}", "Succeeded", code=0) for number in range(20))
    replies = Replies([pods] * 10 + [over], {pod.name: [[at(1, "crash")]] * 10 for pod in pods})
    printed(replies, capsys, follow=True)
    assert replies.reads <= 13
    assert len(replies.asked) < 20 * 13


def test_an_interruption_at_the_end_loses_nothing(capsys):
    over = (a_pod("worker-0", "Succeeded", code=0),)
    replies = Replies([WORKERS[:1], over], {"mnist-worker-0": [[at(1, "a"), 1.5, Unavailable("lost")], [at(2, "b")]]})
    assert printed(replies, capsys, follow=True)[1] == ["worker-0 | a", "worker-0 | b"]


@pytest.mark.parametrize("follow", [False, True])
def test_logs_are_closed_if_nothing_more_can_be_printed(monkeypatch, follow):
    closed = []

    class Closing(Replies):
        async def log(self, _namespace: str, pod: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
            try:
                yield at(1, "a")
                yield at(2, "b")
            finally:
                await asyncio.sleep(0)
                closed.append(pod)

    def is_full(*_: object, **__: object) -> None:
        raise BrokenPipeError

    async def story() -> int:
        monkeypatch.setattr(log_follower.click, "echo", is_full)
        with pytest.raises((BrokenPipeError, ExceptionGroup)):
            await logs._logs(Cluster(Closing([WORKERS] * 9, {}), "ml", None), "mnist", wanted(follow=follow))
        return len(closed)

    assert in_virtual_time(story()) == 2

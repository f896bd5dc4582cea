"""One pod of each job with a hang deadline is asked what its ranks do; the planner sees the answers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from support.harness import Harness, a_spec
from support.ras_server import TEXT, answer, counts
from trainshed.client import Forbidden, Unavailable
from trainshed.controller.ras_polls import POLL_SECONDS, RasPolls
from trainshed.progress.nccl_ras import Query

DEADLINE = {"trainshed.dev/hang-deadline": "10m"}


class Ranks:
    """NCCL in the pods of a job: `state` is what they answer, an error if they do not; `asked` are the pods."""

    def __init__(self, state: bytes | Exception) -> None:
        self.state = state
        self.is_old = False
        self.asked: list[str] = []

    async def converse(self, pod: tuple[str, str], port: int, query: Query, seconds: float) -> None:
        """Answer one query."""
        self.asked.append(pod[1])
        if isinstance(self.state, Exception):
            raise self.state
        for line in (b"SERVER PROTOCOL 2\n", b"OK\n", b"ERROR: Unknown command\n" if self.is_old else b"OK\n"):
            query.feed(line)
        query.feed(TEXT if self.is_old else self.state)
        assert (port, seconds) == (28028, 10.0)


HUNG, HEALTHY = answer(counts(42, 41, 42)), answer(counts(42, 42, 42))


async def a_job(annotations: dict[str, str] | None = None) -> Harness:
    """A job of three replicas that runs."""
    harness = Harness()
    harness.world.submit("TFJob", "mnist", a_spec(Chief=1, Worker=2), DEADLINE if annotations is None else annotations)
    harness.hear()
    await harness.run_all()
    return harness


async def asked(harness: Harness, ranks: Ranks, seconds: float, polls: RasPolls | None = None) -> RasPolls:
    """Ask as often as the operator does in this time; once the job is woken, reconcile until its status is stored."""
    polls = polls or RasPolls(ranks, harness.recorder, harness.now)
    harness.woken.clear()
    for _ in range(round(seconds / POLL_SECONDS)):
        harness.world.now += timedelta(seconds=POLL_SECONDS)
        await polls.ask_due([harness.view])
        if harness.woken:
            await harness.reconcile()
    return polls


def events(harness: Harness) -> list[tuple[str, str]]:
    found = [(event.reason, event.message) for _, event in harness.recorder._gathered.get("ml", {})]
    return [event for event in found if not event[0].startswith("SuccessfulCreate")]


async def test_a_hang_becomes_a_condition_and_ends_with_the_next_operation():
    harness, ranks = await a_job(), Ranks(HUNG)
    polls = await asked(harness, ranks, 600)
    assert "stalled" not in harness.job()["status"]
    await asked(harness, ranks, 90, polls)
    assert harness.job()["status"]["stalled"]["reason"] == "RanksWait"
    assert "rank 1 (host 10.0.0.1, pid 101, AllReduce 41 of 42)" in harness.job()["status"]["stalled"]["message"]
    assert "TFJobStalled" in [reason for reason, _ in events(harness)]
    ranks.state = answer(counts(42, 42, 42))
    await asked(harness, ranks, 120, polls)
    assert "stalled" not in harness.job()["status"]


async def test_a_late_rank_is_named_with_its_pod_and_node():
    harness = await a_job()
    harness.world.replace("pods", "mnist-worker-0", lambda pod: pod["status"].update(podIP="10.0.0.1"), "status")
    harness.hear()
    await asked(harness, Ranks(HUNG), 700)
    assert "rank 1 (mnist-worker-0 on node-0, pid 101" in harness.job()["status"]["stalled"]["message"]


class Advancing(Ranks):
    """NCCL in a job that advances, in which rank 1 is the last to begin each operation."""

    def __init__(self) -> None:
        super().__init__(b"")
        self.number, self.is_still = 42, False

    async def converse(self, pod: tuple[str, str], port: int, query: Query, seconds: float) -> None:
        """Answer with one operation more each time."""
        self.number += not self.is_still
        number = self.number
        self.state = answer(counts(number, number - 1, number))
        await super().converse(pod, port, query, seconds)


async def test_a_rank_that_lags_in_the_answers_of_all_pods_is_named_in_the_status():
    harness, ranks = await a_job(), Advancing()
    harness.world.replace("pods", "mnist-worker-0", lambda pod: pod["status"].update(podIP="10.0.0.1"), "status")
    harness.hear()
    polls = await asked(harness, ranks, 450)
    assert "stragglers" not in harness.job()["status"]
    await asked(harness, ranks, 200, polls)
    assert harness.job()["status"]["stragglers"] == [{"rank": 1, "pod": "mnist-worker-0", "node": "node-0"}]
    assert "stalled" not in harness.job()["status"]
    assert set(ranks.asked[2:]) == {"mnist-chief-0", "mnist-worker-0", "mnist-worker-1"}
    mark = len(harness.world.writes)
    await asked(harness, ranks, 600, polls)
    assert harness.since(mark) == []
    ranks.is_still, before = True, len(ranks.asked)
    await asked(harness, ranks, 300, polls)
    assert len(set(ranks.asked[before:])) == 1, "answers in which nothing has moved are no suspicion"


async def test_one_pod_is_asked_ten_times_within_the_deadline():
    harness, ranks = await a_job(), Ranks(HEALTHY)
    await asked(harness, ranks, 600)
    assert set(ranks.asked) == {"mnist-chief-0"}
    assert 8 <= len(ranks.asked) <= 10
    assert "stalled" not in harness.job()["status"]


@pytest.mark.parametrize("annotations", [{}, {"trainshed.dev/hang-action": "Restart"}])
async def test_jobs_without_a_deadline_are_not_asked(annotations):
    harness, ranks = await a_job(annotations), Ranks(HUNG)
    await asked(harness, ranks, 600)
    assert ranks.asked == []


async def test_a_job_that_does_not_run_as_a_whole_is_not_asked():
    harness, ranks = await a_job(), Ranks(HUNG)
    harness.world.set_pod("mnist-worker-1", "Pending")
    harness.hear()
    await asked(harness, ranks, 600)
    assert ranks.asked == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Forbidden("pods/portforward is forbidden"), "pods/portforward is forbidden"),
        (Unavailable("port 28028 of pod mnist-chief-0: connection refused"), "connection refused"),
    ],
)
async def test_that_no_pod_answers_is_said_once_after_the_deadline(error, words):
    harness, ranks = await a_job(), Ranks(error)
    polls = await asked(harness, ranks, 600)
    assert events(harness) == []
    assert set(ranks.asked) == {"mnist-chief-0", "mnist-worker-0", "mnist-worker-1"}
    await asked(harness, ranks, 600, polls)
    ((reason, message),) = events(harness)
    assert (reason, words in message) == ("NCCLRASNotReachable", True)


async def test_an_old_nccl_is_said_at_once_and_asked_less_often():
    harness, ranks = await a_job(), Ranks(HUNG)
    ranks.is_old = True
    await asked(harness, ranks, 600)
    ((reason, message),) = events(harness)
    assert (reason, "NCCL 2.26.2 answers in text only" in message) == ("NCCLRASNotSupported", True)
    assert len(ranks.asked) <= 5


async def test_answers_of_former_pods_do_not_count():
    harness, ranks = await a_job(), Ranks(HUNG)
    polls = await asked(harness, ranks, 500)
    (uid,) = harness.view.training.operations
    harness.world.delete("pods", "mnist-worker-1", 0)
    harness.hear()
    await asked(harness, ranks, 10, polls)
    assert uid not in harness.view.training.operations


async def test_a_replica_that_does_not_lead_forgets():
    harness, ranks = await a_job(), Ranks(HUNG)
    polls = await asked(harness, ranks, 300)
    assert harness.view.training.operations
    assert polls._step_down([harness.view]) == ()
    assert not harness.view.training.operations

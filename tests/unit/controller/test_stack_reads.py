"""The debug server of a job that hangs is asked once; what it says is stored before the job restarts."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from support.debug_server import page
from support.harness import Harness, a_spec
from trainshed.api.signs import Operations
from trainshed.client import Unavailable
from trainshed.controller.debug_servers import MOST_PODS, DebugServers
from trainshed.controller.stack_reads import OF_NAMESPACE, StackReads
from trainshed.progress.debug_server import StacksQuery

PORT = {"trainshed.dev/hang-deadline": "10m", "trainshed.dev/debug-server-port": "25999"}
RESTART = PORT | {"trainshed.dev/hang-action": "Restart"}


class Servers:
    """What the pods answer, by their names, an error if one does not; `asked` are the pods in their order."""

    def __init__(self, **answers: bytes | Exception) -> None:
        self.answers = {name.replace("_", "-"): found for name, found in answers.items()}
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def converse(self, pod: tuple[str, str], port: int, query: StacksQuery, seconds: float) -> None:
        """Answer one query."""
        self.asked.append(pod[1])
        await self.gate.wait()
        assert (port, 0 < seconds <= 75) == (25999, True)
        found = self.answers.get(pod[1].removeprefix("mnist-"), Unavailable(f"port 25999 of pod {pod[1]}: refused"))
        if isinstance(found, Exception):
            raise found
        query.feed(found)


async def a_hang(servers: Servers, annotations: dict[str, str], workers: int = 2) -> Harness:
    """A job that has just turned Stalled, by what NCCL says."""
    harness = Harness()
    harness.world.submit("TFJob", "mnist", a_spec(Chief=1, Worker=workers), annotations)
    harness.hear()
    await harness.run_all()
    watch(harness, servers)
    harness.world.now += timedelta(seconds=700)
    since = harness.world.now - timedelta(seconds=600)
    harness.view.training.operations[harness.snapshot().job.uid] = Operations(since, 12, hang=True, ranks=3)
    while "stalled" not in harness.job()["status"]:
        await harness.reconcile(seconds=1)
    assert harness.job()["status"]["stalled"]["reason"] == "RanksWait"
    return harness


def watch(harness: Harness, servers: Servers) -> StackReads:
    """Let the reconciler ask."""
    reads = StackReads(DebugServers(servers).read, lambda job: job.debug_port is not None)
    harness.reconciler.watchers.clear()
    reads.watch(harness.view, harness.reconciler.watchers)
    return reads


async def settle(harness: Harness, times: int = 4) -> None:
    """Reconcile some times, and let answers arrive in between."""
    for _ in range(times):
        await harness.reconcile(seconds=1)
        await asyncio.sleep(0.05)


def message(harness: Harness) -> str:
    return harness.job()["status"]["stalled"]["message"]


@pytest.mark.parametrize(
    ("servers", "asked", "words"),
    [
        ({"chief_0": page("stacks")}, ["chief-0"], "rank 1 (host mnist-worker-0"),
        ({"worker_0": page("silent")}, ["chief-0", "worker-0"], ") has not answered; 2 ranks are in all_reduce"),
        ({}, ["chief-0", "worker-0", "worker-1"], "port 25999 of pod mnist-chief-0: refused"),
        ({"chief_0": b"SSH-2.0\r\n"}, ["chief-0", "worker-0", "worker-1"], "it answers 'SSH-2.0'"),
    ],
    ids=["rank 0", "another pod", "refused", "another program"],
)
async def test_the_pods_are_asked_once_until_one_answers(servers, asked, words):
    server = Servers(**servers)
    harness = await a_hang(server, PORT)
    await settle(harness)
    assert words.replace("host mnist-worker-0", "mnist-worker-0 on node-0") in message(harness)
    known = harness.job()["metadata"]["resourceVersion"]
    watch(harness, server)  # another replica leads
    await settle(harness)
    assert [name.removeprefix("mnist-") for name in server.asked] == asked
    assert harness.job()["metadata"]["resourceVersion"] == known


@pytest.mark.parametrize("annotations", [{"trainshed.dev/hang-deadline": "10m"}], ids=["no port"])
async def test_without_a_port_nothing_is_asked(annotations):
    server = Servers(chief_0=page("stacks"))
    await settle(await a_hang(server, annotations))
    assert server.asked == []


async def test_many_pods_are_not_all_tried():
    server = Servers()
    await settle(await a_hang(server, PORT, workers=20))
    assert len(server.asked) == MOST_PODS


async def test_what_the_ranks_did_is_known_after_the_restart():
    server = Servers(chief_0=page("stacks"))
    server.gate.clear()
    harness = await a_hang(server, RESTART)
    await settle(harness)
    assert harness.job()["status"].get("restarts", 0) == 0, "it waits for the answer"
    server.gate.set()
    await settle(harness)
    failure = harness.job()["status"]["failure"]
    assert harness.job()["status"]["restarts"] == 1
    assert "mnist-worker-0 on node-0) is in load_batch (hanging_ranks.py:25)" in failure["terminationMessage"]
    assert failure["replica"] == "worker-0"
    await settle(harness)
    assert harness.view.training.stacks == {}


async def test_an_operator_that_ends_between_the_answer_and_the_restart_loses_neither():
    server = Servers(chief_0=page("stacks"))
    harness = await a_hang(server, RESTART)
    while "stacks" not in message(harness):
        await settle(harness, 1)
    for known in (harness.view.training.stacks, harness.view.training.operations, harness.view.training._watched):
        known.clear()  # what another process does not know
    watch(harness, server)
    await settle(harness)
    assert harness.job()["status"].get("restarts", 0) == 0, "it listens for a deadline first"
    await harness.reconcile(2, seconds=600)
    failure = harness.job()["status"]["failure"]
    assert "is in load_batch" in failure["terminationMessage"]
    assert server.asked == ["mnist-chief-0"]


async def test_a_replica_that_does_not_lead_stops_asking():
    server = Servers(chief_0=page("stacks"))
    server.gate.clear()
    harness = await a_hang(server, PORT)
    reads = watch(harness, server)
    await harness.reconcile()
    await asyncio.sleep(0)
    reads.stop()
    server.gate.set()
    await asyncio.sleep(0.05)
    assert (harness.view.training.stacks, reads._tasks) == ({}, {})


async def test_nothing_is_kept_of_a_job_that_is_deleted_while_its_ranks_are_asked():
    server = Servers(chief_0=page("stacks"))
    server.gate.clear()
    harness = await a_hang(server, PORT)
    await settle(harness, 1)
    assert server.asked == ["mnist-chief-0"]
    harness.world.delete("tfjobs")
    harness.hear()
    server.gate.set()
    await asyncio.sleep(0.1)
    assert harness.view.training.stacks == {}


async def test_jobs_of_one_namespace_leave_room_for_those_of_others():
    """Programs that listen on their port and never answer take all the time that there is for an answer."""
    server = Servers()
    server.gate.clear()
    harness = await a_hang(server, PORT)
    snapshot, jobs = harness.snapshot(), harness.view.jobs["TFJob"].items
    reads = watch(harness, server)
    for number in range(2 * OF_NAMESPACE):
        namespace = "ml" if number < 2 * OF_NAMESPACE - 1 else "others"
        job = replace(snapshot.job, uid=f"u{number}", namespace=namespace)
        jobs[job.uid] = jobs[snapshot.job.uid]
        reads.saw(harness.view, replace(snapshot, job=job))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(server.asked) == OF_NAMESPACE + 1
    reads.stop()

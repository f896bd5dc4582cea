"""Jobs, each with the script of a user from creation to the end; the script waits only for states that users see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from support.jobs import job, pytorchjob, tfjob

from .job_client import JobClient

DDP = ("master-0", "worker-0", "worker-1")
PS = ("chief-0", "ps-0", "worker-0", "worker-1")
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}


@dataclass(frozen=True, slots=True)
class Workload:
    """A job and its script; `counted` is the number of failures that its status must show at the end.

    The `ignored` fields of its status depend on what the operator has seen; several values are right. Of each of
    the `notified` states one message is sent.
    """

    name: str
    job: dict
    script: Callable[[JobClient], Awaitable[None]]
    counted: int = 0
    ignored: tuple[str, ...] = ()
    notified: tuple[str, ...] = ()


async def trains(client: JobClient, members: tuple[str, ...], leaders: tuple[str, ...]) -> None:
    """All run, the replicas that define success succeed, and so does the job."""
    await client.create()
    await client.running(*members)
    await succeeds(client, leaders)


async def succeeds(client: JobClient, leaders: tuple[str, ...]) -> None:
    """The replicas that define success succeed, and so does the job."""
    for leader in leaders:
        await client.end(leader, 0)
    await client.says("Succeeded")


async def one_again(client: JobClient) -> None:
    """A worker fails with a retryable exit code; it alone is restarted."""
    await client.create()
    await client.running(*PS)
    old = {"worker-1": client.uids["worker-1"]}
    await client.end("worker-1", 137)
    await client.running(*PS, old=old)
    await succeeds(client, ("chief-0",))


async def all_again(client: JobClient) -> None:
    """A worker fails with a retryable exit code, and all replicas are restarted."""
    await client.create()
    await client.running(*DDP)
    old = client.uids
    await client.end("worker-1", 137)
    await client.running(*DDP, old=old)
    await succeeds(client, ("master-0",))


async def preempted(client: JobClient) -> None:
    """A worker is preempted, which is not counted."""
    await client.create()
    await client.running(*DDP)
    old = client.uids
    await client.kubelet.preempt(client.pods["worker-0"])
    await client.running(*DDP, old=old)
    await succeeds(client, ("master-0",))


async def taken_away(client: JobClient) -> None:
    """A user deletes a worker of a job with parameter servers; it alone is replaced."""
    await client.create()
    await client.running(*PS)
    old = {"worker-0": client.uids["worker-0"]}
    await client.delete_pod("worker-0")
    await client.running(*PS, old=old)
    await succeeds(client, ("chief-0",))


async def pauses(client: JobClient) -> None:
    """It is suspended, its pods go, and it is resumed."""
    await client.create()
    await client.running("worker-0", "worker-1")
    await client.patch(runPolicy={"suspend": True})
    await client.says("Suspended")
    await client.nothing_left()
    await client.patch(runPolicy={"suspend": False})
    await client.running("worker-0", "worker-1")
    await succeeds(client, ("worker-0",))


async def scales(client: JobClient) -> None:
    """Down to one worker, then up to three."""
    await client.create()
    await client.running("chief-0", "ps-0", "worker-0", "worker-1")
    await client.patch(tfReplicaSpecs={"Worker": {"replicas": 1}})
    left = ["chief-0", "ps-0", "worker-0"]
    await client.until("one worker", lambda: sorted(client.pods) == left == sorted(client.services))
    await client.patch(tfReplicaSpecs={"Worker": {"replicas": 3}})
    await client.running("chief-0", "ps-0", "worker-0", "worker-1", "worker-2")
    await succeeds(client, ("chief-0",))


async def leaves(client: JobClient) -> None:
    """It succeeds, and is deleted after its TTL."""
    await client.create()
    await client.running("worker-0", "worker-1")
    for worker in ("worker-0", "worker-1"):
        await client.end(worker, 0)
    await client.until("the job is gone", lambda: any(_gone(client, found) for found in client.history.versions))


async def expires(client: JobClient) -> None:
    """It exceeds activeDeadlineSeconds, after it has recovered from the faults: the outcome says what ran by then."""
    await client.create()
    await client.says("Failed")


async def gives_up(client: JobClient) -> None:
    """It exceeds backoffLimit."""
    await client.create()
    await client.running("master-0", "worker-0")
    old = client.uids
    await client.end("worker-0", 137)
    await client.running("master-0", "worker-0", old=old)
    await client.end("worker-0", 139)
    await client.says("Failed")


async def fails(client: JobClient) -> None:
    """A worker fails with a permanent exit code."""
    await client.create()
    await client.running(*DDP)
    await client.end("worker-1", 1)
    await client.says("Failed")


def _gone(client: JobClient, found: object) -> bool:
    return found.plural == client.plural and found.after is None


def _telling() -> dict:
    found = pytorchjob("tells", Master=1, Worker=1)
    found["metadata"]["annotations"] = {"trainshed.dev/notify": "team"}
    return found


def _elastic() -> dict:
    found = pytorchjob("elastic", restart="OnFailure", Worker=2)
    found["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3, "metrics": [CPU]}
    return found


def _finishing(kind: str, leaders: str, policy: str = "", **roles: int) -> Workload:
    """A job of a kind that trains and succeeds; of many pods or few."""
    members = [
        "launcher" if role == "Launcher" else f"{role.lower()}-{index}"
        for role, count in roles.items()
        for index in range(count)
    ]
    leading = tuple(member for member in members if member.startswith(leaders))
    name = kind.removesuffix("Job").lower()
    made = job(kind, name, policy={"cleanPodPolicy": policy} if policy else {}, **roles)
    return Workload(name, made, partial(trains, members=tuple(members), leaders=leading))


#: Fields about a deleted pod, if the operator has seen it terminate.
SEEN = ("failure", "recentRestarts")
KEEP_GOING = {"cleanPodPolicy": "Running"}
WORKLOADS = {
    workload.name: workload
    for workload in (
        _finishing("TFJob", "chief", "Running", Chief=1, PS=1, Worker=2, Evaluator=1),
        _finishing("PyTorchJob", "master", "All", Master=1, Worker=2),
        _finishing("JAXJob", "worker", Worker=3),
        _finishing("XGBoostJob", "master", "Running", Master=1, Worker=1),
        _finishing("PaddleJob", "worker", "All", Worker=2),
        _finishing("MPIJob", "launcher", "Running", Launcher=1, Worker=2),
        Workload("elastic", _elastic(), partial(trains, members=("worker-0", "worker-1"), leaders=("worker-0",))),
        Workload("one-again", tfjob("one", restart="ExitCode", Chief=1, PS=1, Worker=2), one_again, counted=1),
        Workload("all-again", pytorchjob("all", restart="ExitCode", Master=1, Worker=2), all_again, counted=1),
        Workload("preempted", pytorchjob("pre", policy=KEEP_GOING, Master=1, Worker=2), preempted),
        Workload("taken-away", tfjob("taken", Chief=1, PS=1, Worker=2), taken_away, ignored=SEEN),
        Workload("pauses", tfjob("pauses", Worker=2), pauses),
        Workload("scales", tfjob("scales", Chief=1, PS=1, Worker=2), scales, ignored=SEEN),
        Workload("leaves", job("JAXJob", "leaves", policy={"ttlSecondsAfterFinished": 1}, Worker=2), leaves),
        Workload(
            "expires",
            tfjob("late", policy={"activeDeadlineSeconds": 8, "cleanPodPolicy": "All"}, Worker=2),
            expires,
            ignored=("conditions", "ready", "replicaStatuses"),  # the number that runs by then is random
        ),
        Workload(
            "gives-up",
            pytorchjob("enough", restart="ExitCode", policy={"backoffLimit": 1}, Master=1, Worker=1),
            gives_up,
            counted=1,
        ),
        Workload(
            "tells",
            _telling(),
            partial(trains, members=("master-0", "worker-0"), leaders=("master-0",)),
            ignored=("notified",),  # it has the id of a message
            notified=("Succeeded",),  # a job that runs for less than two seconds may send no message that it ran
        ),
        Workload("fails", pytorchjob("fails", policy=KEEP_GOING, Master=1, Worker=2), fails),
    )
}

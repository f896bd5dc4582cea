"""Lives of jobs, each from its creation to its end; what is waited for in between is what a user could see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from support.jobs import job, pytorchjob, tfjob

from .scene import Scene

DDP = ("master-0", "worker-0", "worker-1")
PS = ("chief-0", "ps-0", "worker-0", "worker-1")
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}


@dataclass(frozen=True, slots=True)
class Workload:
    """A job and its life; `counted` failures are to be found in its status.

    What is `blurred` in its status depends on what the operator happened to see, and is right either way.
    """

    name: str
    job: dict
    play: Callable[[Scene], Awaitable[None]]
    counted: int = 0
    blurred: tuple[str, ...] = ()


async def trains(scene: Scene, members: tuple[str, ...], leaders: tuple[str, ...]) -> None:
    """All run, those who decide succeed, and so does the job."""
    await scene.create()
    await scene.running(*members)
    await succeeds(scene, leaders)


async def succeeds(scene: Scene, leaders: tuple[str, ...]) -> None:
    """Those who decide succeed, and so does the job."""
    for leader in leaders:
        await scene.end(leader, 0)
    await scene.says("Succeeded")


async def one_again(scene: Scene) -> None:
    """A worker fails in a way that is worth another try; it alone gets one."""
    await scene.create()
    await scene.running(*PS)
    old = {"worker-1": scene.uids["worker-1"]}
    await scene.end("worker-1", 137)
    await scene.running(*PS, old=old)
    await succeeds(scene, ("chief-0",))


async def all_again(scene: Scene) -> None:
    """A worker fails in a way that is worth another try, and all begin anew together."""
    await scene.create()
    await scene.running(*DDP)
    old = scene.uids
    await scene.end("worker-1", 137)
    await scene.running(*DDP, old=old)
    await succeeds(scene, ("master-0",))


async def preempted(scene: Scene) -> None:
    """A worker is preempted; nobody's fault, and nothing is counted."""
    await scene.create()
    await scene.running(*DDP)
    old = scene.uids
    await scene.kubelet.evict(scene.pods["worker-0"])
    await scene.running(*DDP, old=old)
    await succeeds(scene, ("master-0",))


async def taken_away(scene: Scene) -> None:
    """Somebody deletes a worker of a job with parameter servers; it alone is replaced."""
    await scene.create()
    await scene.running(*PS)
    old = {"worker-0": scene.uids["worker-0"]}
    await scene.delete_pod("worker-0")
    await scene.running(*PS, old=old)
    await succeeds(scene, ("chief-0",))


async def pauses(scene: Scene) -> None:
    """It is suspended, its pods go, and it is resumed."""
    await scene.create()
    await scene.running("worker-0", "worker-1")
    await scene.patch(runPolicy={"suspend": True})
    await scene.says("Suspended")
    await scene.until("no pods and no Services", lambda: not (scene.pods or scene.services))
    await scene.patch(runPolicy={"suspend": False})
    await scene.running("worker-0", "worker-1")
    await succeeds(scene, ("worker-0",))


async def scales(scene: Scene) -> None:
    """Down to one worker, then up to three."""
    await scene.create()
    await scene.running("chief-0", "ps-0", "worker-0", "worker-1")
    await scene.patch(tfReplicaSpecs={"Worker": {"replicas": 1}})
    left = ["chief-0", "ps-0", "worker-0"]
    await scene.until("one worker", lambda: sorted(scene.pods) == left == sorted(scene.services))
    await scene.patch(tfReplicaSpecs={"Worker": {"replicas": 3}})
    await scene.running("chief-0", "ps-0", "worker-0", "worker-1", "worker-2")
    await succeeds(scene, ("chief-0",))


async def leaves(scene: Scene) -> None:
    """It succeeds, and is deleted when its time is up."""
    await scene.create()
    await scene.running("worker-0", "worker-1")
    for worker in ("worker-0", "worker-1"):
        await scene.end(worker, 0)
    await scene.until("the job is gone", lambda: any(_gone(scene, found) for found in scene.pages.versions))


async def expires(scene: Scene) -> None:
    """It takes longer than it may."""
    await scene.create()
    await scene.says("Failed")


async def gives_up(scene: Scene) -> None:
    """It fails once more than it may."""
    await scene.create()
    await scene.running("master-0", "worker-0")
    old = scene.uids
    await scene.end("worker-0", 137)
    await scene.running("master-0", "worker-0", old=old)
    await scene.end("worker-0", 139)
    await scene.says("Failed")


async def fails(scene: Scene) -> None:
    """A worker ends with an error of its own, and may not be tried again."""
    await scene.create()
    await scene.running(*DDP)
    await scene.end("worker-1", 1)
    await scene.says("Failed")


def _gone(scene: Scene, found: object) -> bool:
    return found.plural == scene.plural and found.after is None


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


#: What a status says of a pod that was taken away, if it was seen to go.
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
        Workload("taken-away", tfjob("taken", Chief=1, PS=1, Worker=2), taken_away, blurred=SEEN),
        Workload("pauses", tfjob("pauses", Worker=2), pauses),
        Workload("scales", tfjob("scales", Chief=1, PS=1, Worker=2), scales, blurred=SEEN),
        Workload("leaves", job("JAXJob", "leaves", policy={"ttlSecondsAfterFinished": 1}, Worker=2), leaves),
        Workload(
            "expires",
            tfjob("late", policy={"activeDeadlineSeconds": 2, "cleanPodPolicy": "All"}, Worker=2),
            expires,
            blurred=("conditions", "ready", "replicaStatuses"),  # how many ran by then is chance
        ),
        Workload(
            "gives-up",
            pytorchjob("enough", restart="ExitCode", policy={"backoffLimit": 1}, Master=1, Worker=1),
            gives_up,
            counted=1,
        ),
        Workload("fails", pytorchjob("fails", policy=KEEP_GOING, Master=1, Worker=2), fails),
    )
}

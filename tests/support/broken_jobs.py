"""Ten broken jobs, and some that are well, as the pages show them: each with the time at which it is looked at."""

from __future__ import annotations

from dataclasses import replace

from support.builders import at
from support.played_jobs import IMAGE, Life, Play, a_document
from support.queue_stories import QUEUES
from trainshed.api.coerce import format_time
from trainshed.api.signs import LateRank, Operations, Signs, Steps
from trainshed.api.trainer_status import TrainerStatus
from trainshed.fit.amounts import parsed
from trainshed.fit.packing import RoomOfNode
from trainshed.views.story import Beside

REPLICAS = ("master-0", "worker-0", "worker-1", "worker-2")
NODES = dict(zip(REPLICAS, ("gpu-node-01", "gpu-node-02", "gpu-node-03", "gpu-node-04"), strict=True))
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/app/train.py", line 212, in <module>\n    main()\n'
    '  File "/app/train.py", line 187, in main\n    loss = step(batch)\nValueError: bad batch: label 10 is out of range'
)
PULL = f'Back-off pulling image "{IMAGE}": ErrImagePull: failed to resolve reference "{IMAGE}": not found'
GPUS = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available."
PROBE = "Liveness probe failed: HTTP probe failed with statuscode: 503"


def lives(*others: Life, **fields) -> tuple[Life, ...]:
    """A life for each replica, on nodes of their own; `others` replace those of their replicas."""
    known = {one.replica for one in others}
    every = [
        Life(name, started=22 + 3 * place, node=NODES[name], **fields)
        for place, name in enumerate(REPLICAS)
        if name not in known
    ]
    return tuple(sorted((*every, *others), key=lambda one: REPLICAS.index(one.replica)))


def again(attempt: int, begin: float, end: float, *, gone: float, first: str = "worker-1", **fields) -> list[Life]:
    """The pods of one attempt, of which one replica fails and all are replaced."""
    found = []
    for place, name in enumerate(REPLICAS):
        own = {"created": begin, "scheduled": begin + 2, "started": begin + 15 + 2 * place, "node": NODES[name]}
        end_of = {"ended": end, **fields} if name == first else {}
        found.append(Life(name, attempt=attempt, deleted=end + 2, removed=gone, **own, **end_of))
    return found


def training(until: float, *, every: float = 60, stops: float | None = None):
    """A training that reports a step each second from the 40th on, and its loss; it may stop."""

    def report(now: float) -> TrainerStatus | None:
        last = min(now, until, stops if stops is not None else until)
        reported = 40 + (last - 40) // every * every
        if now < 40 + every or reported <= 40:
            return None
        step = int(reported - 40)
        loss = 0.4 + 2.2 / (1 + step / 600) + 0.03 * ((step // 60) % 3)
        metrics = (("loss", f"{loss:.4f}"), ("lr", f"{1e-3 * (1 - step / 20000):.3e}"))
        return TrainerStatus(at(reported), step * 100 // 10_000, int(10_000 - step), metrics, step, 10_000, None, 1.0)

    return report


def every(seconds: float, until: float) -> tuple[float, ...]:
    """Times at equal distances."""
    return tuple(seconds * number for number in range(1, int(until // seconds) + 1))


def crash_loop() -> tuple[Play, float]:
    runs = ((18.0, 24.0, 1, "Error"), (35.0, 41.0, 1, "Error"), (62.0, 67.0, 1, "Error"), (108.0, 113.0, 1, "Error"))
    loops = Life("worker-1", started=None, runs=runs, node="gpu-node-03", message=TRACEBACK)
    return Play(a_document(policy={"backoffLimit": 6}), lives(loops), extra=every(20, 160)), 160


def failed_once_too_often(reason: str, code: int) -> tuple[Play, float]:
    found: list[Life] = []
    for attempt in range(3):
        begin = attempt * 640.0
        found += again(attempt, begin, begin + 600, gone=begin + 608, code=code, reason=reason)
    played = [replace(one, removed=None, deleted=None) if one.attempt == 2 else one for one in found]
    return Play(a_document(restart="OnFailure", policy={"backoffLimit": 2}), tuple(played)), 1920


def evicted() -> tuple[Play, float]:
    pod_reason = ("Evicted", "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Mi.")
    first = again(0, 0, 1800, gone=1835, code=137, pod_reason=pod_reason, disrupted=(1799, "TerminationByKubelet"))
    second = [
        Life(
            name,
            created=1840,
            scheduled=1842,
            started=None,
            attempt=1,
            node="gpu-node-05" if place == 2 else NODES[name],
        )
        for place, name in enumerate(REPLICAS)
    ]
    second = [replace(one, started=1870 if place != 2 else None) for place, one in enumerate(second)]
    return Play(a_document(policy={"backoffLimit": 3}, restart="OnFailure"), (*first, *second)), 1900


def stalled(*late: LateRank) -> tuple[Play, float]:
    hang = {"trainshed.dev/hang-deadline": "10m", "trainshed.dev/progress": "Logs"}
    job = a_document(annotations=hang)

    def signs(now: float) -> Signs:
        known = Steps(at(min(now, 2980)), 2940, 1.0, 60.0) if now >= 120 else None
        counts = Operations(at(min(now, 2980)), 12, now >= 3600, late if now >= 3600 else (), 4) if late else None
        return Signs(known, counts, watched=at(0))

    return Play(job, lives(), trains=training(7200, stops=3000), signs=signs, extra=every(60, 4200)), 4200


def by_kueue() -> tuple[Play, float]:
    labels = {"kueue.x-k8s.io/queue-name": "gpus"}
    job = a_document(policy={"suspend": True}, labels=labels)
    return Play(job, (), extra=(10,), beside=Beside(QUEUES["queue"])), 2400


def probe() -> tuple[Play, float]:
    killed = Life("worker-1", started=25, node="gpu-node-03", ended=900, code=137, probed=True, ready=60)
    job = a_document(restart="Never")
    own = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    own["livenessProbe"] = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 5, "failureThreshold": 3}
    said = (("Unhealthy", PROBE), ("Killing", "Container pytorch failed liveness probe, will be restarted"))
    events = tuple(
        {
            "metadata": {"name": f"mnist-worker-1.{reason}", "namespace": "ml"},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "count": 3,
            "lastTimestamp": format_time(at(899)),
            "involvedObject": {"kind": "Pod", "name": "mnist-worker-1"},
        }
        for reason, message in said
    )
    return Play(job, lives(killed), beside=Beside(probe=PROBE), events=events), 960


def healthy(deadline: int = 12_000) -> tuple[Play, float]:
    job = a_document(policy={"activeDeadlineSeconds": deadline}, annotations={"trainshed.dev/progress": "Logs"})
    first = again(0, 0, 1500, gone=1520, code=137, reason="OOMKilled")
    second = [
        Life(name, created=1525, scheduled=1527, started=1545 + place, attempt=1, node=NODES[name])
        for place, name in enumerate(REPLICAS)
    ]
    return Play(job, (*first, *second), trains=training(9000), extra=every(60, 5400)), 5400


def pull() -> tuple[Play, float]:
    waits = Life("worker-1", started=None, waits=("ImagePullBackOff", PULL), node="gpu-node-03")
    job = a_document(annotations={"trainshed.dev/startup-deadline": "20m"})
    return Play(job, lives(waits), extra=every(60, 700)), 700


def quota() -> tuple[Play, float]:
    text = (
        'pods "mnist-worker-1" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, used:'
        " requests.nvidia.com/gpu=24, limited: requests.nvidia.com/gpu=24"
    )
    there = (Life("master-0", node="gpu-node-01"), Life("worker-0", started=24, node="gpu-node-02"))
    return Play(a_document(), there, refusal=(1, "QuotaExceeded", text), extra=every(60, 900)), 900


def unschedulable() -> tuple[Play, float]:
    waits = tuple(Life(name, scheduled=None, started=None, unplaced=GPUS) for name in REPLICAS)
    free = parsed({"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"})
    nodes = tuple(RoomOfNode(name, {}, (), free) for name in NODES.values())
    return Play(a_document(), waits, extra=every(60, 840), beside=Beside(nodes=nodes)), 840


def deadline() -> tuple[Play, float]:
    job = a_document(policy={"activeDeadlineSeconds": 3600, "ttlSecondsAfterFinished": 600})
    found = tuple(replace(one, deleted=3625.0) for one in lives())
    return Play(job, found, extra=(*every(300, 3600), 3621)), 3640


#: The ten broken jobs.
BROKEN = {
    "image-pull": pull,
    "quota": quota,
    "unschedulable-gpu": unschedulable,
    "crash-loop": crash_loop,
    "oom-killed": lambda: failed_once_too_often("OOMKilled", 137),
    "evicted": evicted,
    "stalled": stalled,
    "suspended-by-kueue": by_kueue,
    "deadline-exceeded": deadline,
    "liveness-probe": probe,
}
LATE = LateRank(2, "10.0.0.3", 101, "AllReduce", 41, 42, "mnist-worker-1", "gpu-node-03")
#: One that trains well again after a failure, one that does, but for longer than it may, and one that waits for a rank.
WELL = {"healthy": healthy, "stopped-too-early": lambda: healthy(9000), "stalled-rank": lambda: stalled(LATE)}

"""What others say for the stories of `trainshed explain`: Kueue of jobs that wait, a runtime, a webhook, a policy."""

from __future__ import annotations

from trainshed.views.kueue_queue import Queue, QueuePlace


def in_queue(*conditions: tuple[str, str, str, str], place: QueuePlace | None = None, **fields) -> Queue:
    """A Workload with these conditions: type, status, reason, message."""
    since = {"lastTransitionTime": "2026-01-01T12:00:10Z"}
    names = ("type", "status", "reason", "message")
    status = {"conditions": [dict(zip(names, item, strict=True), **since) for item in conditions]}
    metadata = {"name": "pytorchjob-mnist-1a2b3", "namespace": "ml"}
    known: dict = {"metadata": metadata, "spec": {"queueName": "gpus"}, "status": status}
    known |= {path: {**known[path], **value} for path, value in fields.items()}
    return Queue(known, place=place)


PENDING, FLAVORS = ("QuotaReserved", "False", "Pending"), "couldn't assign flavors to pod set worker:"
QUOTA = (*PENDING, f"{FLAVORS} insufficient unused quota for nvidia.com/gpu in flavor gpus, 8 more needed")
TOO_MUCH = "insufficient quota for nvidia.com/gpu in flavor gpus, current podset request (24) > maximum capacity (16)"
PREEMPTED = "Preempted to accommodate a workload (UID: 1, JobUID: 2) due to prioritization in the ClusterQueue"
CHECKS = [{"name": "provisioning", "state": "Pending", "message": "waiting for 4 nodes of pool h100"}]
LEFT = {"requeueState": {"count": 2, "requeueAt": "2026-01-01T12:06:10Z"}}
RUNTIME = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed:"
    ' unable to start container process: exec: "trains.py": executable file not found in $PATH'
)
WEBHOOK = 'admission webhook "policy.example" denied the request: every pod needs the label team'
POLICY = "ValidatingAdmissionPolicy 'team' with binding 'team' denied request: every pod needs the label team"
NODES_ARE, NO_HELP = "0/4 nodes are available:", "preemption: 0/4 nodes are available: 4 Preemption is not helpful."
GANG = "Resources were found for 3 pods while sub-group worker requires 4 pods for gang scheduling."
#: By the name of the story.
QUEUES: dict[str, Queue] = {
    "queue": in_queue(QUOTA, place=QueuePlace(2, 5, 7)),
    "queue-as-far-as-seen": in_queue(QUOTA, place=QueuePlace(0, 3)),
    "queue-too-small": in_queue((*PENDING, f"{FLAVORS} {TOO_MUCH}"), place=QueuePlace(0, 1)),
    "queue-missing": in_queue((*PENDING, "LocalQueue gpus doesn't exist")),
    "queue-evicted": in_queue(("Evicted", "True", "PodsReadyTimeout", "Exceeded 5m"), QUOTA, status=LEFT),
    "queue-preempted": in_queue(("Preempted", "True", "InClusterQueue", PREEMPTED), QUOTA),
    "queue-inactive": in_queue(QUOTA, spec={"active": False}),
    "queue-checks": in_queue(("QuotaReserved", "True", "", "reserved"), status={"admissionChecks": CHECKS}),
    "queue-without-workload": Queue(),
    "queue-not-to-be-read": Queue(refused=True),
}

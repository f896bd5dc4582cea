"""Malformed and extreme values, by name, that a user may write into a job's objects or into its status."""

from __future__ import annotations

from typing import Any

from .cluster import NAMESPACE

CORE = f"/api/v1/namespaces/{NAMESPACE}"
LARGEST, LONG = 2**31 - 1, 2**63 - 1
NEVER, FIRST, LAST = "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
BIG, ODD = "x" * 1_200_000, 'a\x00\x1b[31m\r\n\t"\\\u2028\U0001f600\ufffe</script> %s {0}'


def annotated(value: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {"trainshed.dev/restart-attempt": value}}}


def labelled(what: str, value: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {f"training.kubeflow.org/{what}": value}}}


def container(**fields: Any) -> dict[str, Any]:
    """Return a status with one container."""
    return {"status": {"containerStatuses": [{"name": "tensorflow", "restartCount": 0, **fields}]}}


def ended(**fields: Any) -> dict[str, Any]:
    """Return the status of a failed pod."""
    status = container(state={"terminated": {"exitCode": 137, "reason": "Error", **fields}})
    return {"status": {**status["status"], "phase": "Failed"}}


def condition(kind: str, **fields: Any) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": "True", **fields}]}}


METADATA: dict[str, Any] = {
    "attempt just above what has so many digits": annotated("9999999999"),
    "attempt the largest": annotated(str(LARGEST)),
    "attempt one more": annotated(str(LARGEST + 1)),
    "attempt a milliard": annotated("1000000000"),
    "attempt seven": annotated("7"),
    "attempt negative": annotated("-1"),
    "attempt no number": annotated("many"),
    "attempt of other digits": annotated("\u0667"),
    "attempt without end": annotated("9" * 5000),
    "attempt empty": annotated(""),
    "attempt gone": annotated(None),
    "attempt odd": annotated(ODD),
    "attempt of a wrong type": annotated(7),
    "annotations without end": {"metadata": {"annotations": {f"note-{n}": "x" * 1000 for n in range(200)}}},
    "index huge": labelled("replica-index", "9999999999"),
    "index negative": labelled("replica-index", "-5"),
    "index no number": labelled("replica-index", "many"),
    "index of other digits": labelled("replica-index", "\u0661"),
    "index gone": labelled("replica-index", None),
    "role another": labelled("replica-type", "chief"),
    "role unknown": labelled("replica-type", "Unknown"),
    "role gone": labelled("replica-type", None),
    "finalizers odd": {"metadata": {"finalizers": []}},
}
STATUSES: dict[str, Any] = {
    "phase unknown": {"status": {"phase": "Sleeping"}},
    "phase empty": {"status": {"phase": ""}},
    "phase null": {"status": {"phase": None}},
    "phase a number": {"status": {"phase": 7}},
    "status empty": {"status": {"phase": None, "conditions": None, "containerStatuses": None}},
    "reason of megabytes": {"status": {"phase": "Failed", "reason": BIG}},
    "message of megabytes": {"status": {"phase": "Failed", "reason": "Evicted", "message": BIG}},
    "message odd": {"status": {"phase": "Failed", "reason": ODD, "message": ODD}},
    "message a list": {"status": {"phase": "Failed", "message": [1]}},
    "conditions of wrong types": {"status": {"conditions": [None, 7, {"type": 7, "status": True}]}},
    "conditions without end": {"status": {"conditions": [{"type": f"T{n}", "status": "True"} for n in range(5000)]}},
    "disruption at no time": condition("DisruptionTarget", lastTransitionTime=NEVER),
    "disruption at the last of times": condition("DisruptionTarget", reason=BIG, lastTransitionTime=LAST),
    "scheduled odd": condition("PodScheduled", status="False", reason=ODD, message=BIG),
    "restarts negative": container(restartCount=-5),
    "restarts the smallest": container(restartCount=-LARGEST - 1),
    "restarts the largest": container(restartCount=LARGEST),
    "restarts more": container(restartCount=LONG),
    "restarts null": container(restartCount=None),
    "restarts a text": container(restartCount="many"),
    "restarts a fraction": container(restartCount=1.5),
    "restarts the largest, twice": {
        "status": {"containerStatuses": [{"name": name, "restartCount": LARGEST} for name in ("tensorflow", "b")]}
    },
    "container without a name": container(name=None),
    "container of an odd name": container(name=ODD),
    "containers no list": {"status": {"containerStatuses": {"name": "tensorflow"}}},
    "containers without end": {"status": {"containerStatuses": [{"name": f"c{n}"} for n in range(5000)]}},
    "states all at once": container(state={"running": {}, "waiting": {}, "terminated": {}}),
    "state null": container(state=None),
    "state a text": container(state="fine"),
    "code negative": ended(exitCode=-1),
    "code the smallest": ended(exitCode=-LARGEST - 1),
    "code the largest": ended(exitCode=LARGEST),
    "code more": ended(exitCode=LONG),
    "code null": ended(exitCode=None),
    "code a text": ended(exitCode="137"),
    "end before all times": ended(finishedAt=NEVER),
    "end at the first of times": ended(finishedAt=FIRST, startedAt=FIRST),
    "end at the last of times": ended(finishedAt=LAST),
    "end after all times": ended(finishedAt="10000-01-01T00:00:00Z"),
    "end long after the start": ended(startedAt="1971-01-01T00:00:00Z", finishedAt=LAST),
    "end long before the start": ended(startedAt=LAST, finishedAt="1971-01-01T00:00:00Z"),
    "end without a zone": ended(finishedAt="2026-01-01T00:00:00"),
    "end a number": ended(finishedAt=1_767_225_600),
    "start no time": container(state={"running": {"startedAt": "soon"}}),
    "start at the last of times": container(state={"running": {"startedAt": LAST}}),
    "words of megabytes": ended(reason="Error", message=BIG),
    "words odd": ended(reason=ODD, message=ODD),
    "reason of megabytes in a container": ended(reason=BIG),
    "waiting for megabytes": container(state={"waiting": {"reason": BIG, "message": BIG}}),
    "last run malformed": container(
        restartCount=3, lastState={"terminated": {"exitCode": LONG, "startedAt": NEVER, "finishedAt": LAST}}
    ),
    "init containers odd": {"status": {"initContainerStatuses": [{"name": None, "restartCount": -7, "state": 5}]}},
}
SERVICES: dict[str, Any] = {
    "labels gone": {"metadata": {"labels": None}},
    "role another": labelled("replica-type", "Unknown"),
    "index huge": labelled("replica-index", "9" * 30),
    "owners gone": {"metadata": {"ownerReferences": None}},
    "selector of others": {"spec": {"selector": {"app": "x"}}},
    "name headless no more": {"spec": {"ports": [{"port": 1}]}},
}
CONFIG_MAPS: dict[str, Any] = {
    "data gone": {"data": None},
    "data empty": {"data": {}},
    "data other": {"data": {"hostfile": BIG, ODD[:1]: "x"}},
    "bytes as well": {"binaryData": {"x": "AAAA"}},
    "labels gone": {"metadata": {"labels": None, "annotations": None}},
    "digest forged": {"metadata": {"annotations": {"trainshed.dev/last-applied-hash": "0"}}},
}
#: Changes that the operator cannot undo: no pods are created until a user deletes the ConfigMap.
OBSTACLES: dict[str, Any] = {
    "owners gone": {"metadata": {"ownerReferences": None}},
    "data frozen": {"immutable": True},
    "data other and frozen": {"immutable": True, "data": {"hostfile": "unknown"}},
}
RESTART = {
    "replica": "worker-0",
    "class": "Application",
    "reason": "Error",
    "attempt": LARGEST,
    "replicasRestarted": LARGEST,
}
FAILURE = {
    "pod": "job-worker-0",
    "class": "Application",
    "reason": "Error",
    "exitCode": LARGEST,
    "runDurationSeconds": LARGEST,
}
JOB_STATUS: dict[str, Any] = {
    "attempts the largest": {"attempts": {"Chief": LARGEST, "Worker": LARGEST}},
    "attempts one the largest": {"attempts": {"Worker": LARGEST}},
    "attempts negative": {"attempts": {"Chief": -1, "Worker": -LARGEST}},
    "attempts of unknown roles": {"attempts": {f"Unknown{n}": LARGEST for n in range(2000)}},
    "restarts the largest": {"restarts": LARGEST},
    "restarts negative": {"restarts": -LARGEST},
    "streak the largest": {"retry": {"consecutiveFailures": LARGEST}},
    "streak negative": {"retry": {"consecutiveFailures": -LARGEST}},
    "next pods at the last of times": {"retry": {"nextRetryTime": LAST, "consecutiveFailures": 3}},
    "next pods at the first of times": {"retry": {"nextRetryTime": FIRST, "consecutiveFailures": 3}},
    "in place the largest": {"retry": {"containerRestarts": LARGEST, "deletedPodContainerRestarts": LARGEST}},
    "in place negative": {"retry": {"containerRestarts": -1, "deletedPodContainerRestarts": -LARGEST}},
    "replacing without end": {"podsPendingReplacement": [f"uid-{n}" for n in range(20_000)]},
    "replacing odd": {"podsPendingReplacement": ["", ODD, BIG]},
    "shrunk to none": {"scaledDownTo": {"Worker": 0, "Chief": 0, "Unknown": -1}},
    "shrunk the largest": {"scaledDownTo": {"Worker": LARGEST}},
    "start at the last of times": {"startTime": LAST},
    "start at the first of times": {"startTime": FIRST},
    "completion before any end": {"completionTime": LAST},
    "tallies the largest": {
        "replicaStatuses": {"Worker": {"active": LARGEST, "failed": LARGEST, "ready": LARGEST, "selector": BIG}}
    },
    "tallies negative": {"replicaStatuses": {"Worker": {"active": -1, "succeeded": -LARGEST}}},
    "counts of unknown roles": {"replicaStatuses": {f"Unknown{n}": {"active": n} for n in range(2000)}},
    "indexes huge": {"replicaStatuses": {"Worker": {"completedIndexes": "5-" + "9" * 2000}}},
    "indexes odd": {"replicaStatuses": {"Worker": {"completedIndexes": "bits:" + ODD}}},
    "labels nested": {"replicaStatuses": {"Worker": {"labelSelector": {"a": [{"b": [[[]]]}]}}}},
    "failure malformed": {"failure": {**FAILURE, "time": LAST, "terminationMessage": ODD, "message": BIG}},
    "failure at the first of times": {"failure": {**FAILURE, "time": FIRST}},
    "failure without a pod": {"failure": {"time": LAST, "class": BIG, "reason": ODD}},
    "restarts remembered absurd": {"recentRestarts": [{**RESTART, "time": FIRST}, {**RESTART, "time": LAST}]},
    "restarts remembered without end": {"recentRestarts": [{**RESTART, "time": LAST}] * 3000},
    "lost time the largest": {"recentRestarts": [{**RESTART, "time": FIRST, "recoverySeconds": LARGEST}]},
    "runs of negative time": {
        "recentRestarts": [{**RESTART, "totalRunningSeconds": LARGEST}, {**RESTART, "totalRunningSeconds": -LARGEST}]
    },
    "time spent before the job": {"timeSpent": {"phase": "Running", "since": FIRST, "restartSeconds": LARGEST}},
    "time spent in the future": {"timeSpent": {"phase": ODD, "since": LAST, "runningSeconds": 2**31 - 1}},
    "conditions without end": {
        "conditions": [{"type": "Created", "status": "True", "message": f"{n}"} for n in range(3000)]
    },
    "conditions of two minds": {
        "conditions": [{"type": "Running", "status": status} for status in ("False", "True", "Perhaps")]
    },
    "conditions odd": {
        "conditions": [{"type": ODD, "status": ODD}, {"type": "Running", "status": "True", "reason": BIG}]
    },
    "suspended at the last of times": {
        "conditions": [{"type": "Suspended", "status": "True", "lastTransitionTime": LAST, "lastUpdateTime": LAST}]
    },
    "restarting at the first of times": {
        "conditions": [{"type": "Restarting", "status": "True", "lastTransitionTime": FIRST}]
    },
    "blocked for no reason": {"conditions": [{"type": "Blocked", "status": "True", "reason": BIG, "message": BIG}]},
    "reconciled at the last of times": {"lastReconcileTime": LAST},
    "ready odd": {"ready": BIG},
}


RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
AUTOSCALER = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/job"
#: Other objects of a job: its kind, the path, and the change.
OWNED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "rules removed": ("MPIJob", f"{RBAC}/roles/job-launcher", {"rules": None}),
    "rules odd": ("MPIJob", f"{RBAC}/roles/job-launcher", {"rules": [{"verbs": [ODD]}, {}]}),
    "subjects gone": ("MPIJob", f"{RBAC}/rolebindings/job-launcher", {"subjects": None}),
    "account without labels": ("MPIJob", f"{CORE}/serviceaccounts/job-launcher", {"metadata": {"labels": None}}),
    "autoscaler without a spec": ("PyTorchJob", AUTOSCALER, {"spec": None}),
    "autoscaler of huge numbers": ("PyTorchJob", AUTOSCALER, {"spec": {"minReplicas": -LONG, "maxReplicas": LONG}}),
    "autoscaler of odd metrics": ("PyTorchJob", AUTOSCALER, {"spec": {"metrics": [None, 7, {"type": ODD}]}}),
    "autoscaler of another": ("PyTorchJob", AUTOSCALER, {"spec": {"scaleTargetRef": {"name": BIG}}}),
    "autoscaler of an odd status": ("PyTorchJob", f"{AUTOSCALER}/status", {"status": {"conditions": 7}}),
}
GROUPS: dict[str, dict[str, Any]] = {
    "phase unknown": {"status": {"phase": ODD}},
    "phase of megabytes": {"status": {"phase": BIG}},
    "phase gone": {"status": {"phase": None}},
    "conditions odd": {"status": {"phase": "Pending", "conditions": [{"type": ODD, "status": "True"}]}},
    "conditions of megabytes": {
        "status": {"phase": "Pending", "conditions": [{"status": "True", "reason": BIG, "message": ODD}]}
    },
    "members negative": {"spec": {"minMember": -LARGEST}},
    "members the largest": {"spec": {"minMember": LARGEST}},
    "resources odd": {"spec": {"minResources": {"cpu": "1" * 30, "nothing": 0}}},
    "queue odd": {"spec": {"queue": ODD}},
    "spec gone": {"spec": None},
    "labels gone": {"metadata": {"labels": None, "annotations": None}},
}

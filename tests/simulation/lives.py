"""What a kubelet writes into the status of a pod, for each thing that can happen to one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

#: Why DisruptionTarget is set: Kubernetes' five reasons.
DISRUPTIONS = (
    "PreemptionByScheduler",
    "DeletionByTaintManager",
    "EvictionByEvictionAPI",
    "DeletionByPodGC",
    "TerminationByKubelet",
)
#: Why a kubelet takes no pod, or takes one off its node, without a word about its containers.
REJECTIONS = ("OutOfcpu", "OutOfmemory", "UnexpectedAdmissionError", "NodeAffinity", "Evicted", "NodeShutdown")
#: Why an image does not come.
PULLS = ("ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError")


def stamp(now: float) -> str:
    """Seconds since 1970 as the API spells them."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def waiting(pod: Object, reason: str) -> Object:
    """It has its node, and its image does not come."""
    return {"phase": "Pending", "containerStatuses": [{**_own(pod), "state": {"waiting": {"reason": reason}}}]}


def running(pod: Object, now: float, *, ready: bool = True) -> Object:
    """Its container runs."""
    own = _own(pod)
    state = {"running": {"startedAt": _started(own) or stamp(now)}}
    status = {"phase": "Running", "containerStatuses": [{**own, "ready": ready, "state": state}]}
    return status | _conditions(pod, "Ready", ready=ready)


def restarted(pod: Object, code: int, now: float) -> Object:
    """Its container ended with this code, and the kubelet has started it again."""
    own = _own(pod)
    last = {"terminated": {"exitCode": code, "reason": "Error", "startedAt": _started(own), "finishedAt": stamp(now)}}
    state = {"running": {"startedAt": stamp(now)}}
    again = {**own, "restartCount": own.get("restartCount", 0) + 1, "state": state, "lastState": last, "ready": True}
    return {"phase": "Running", "containerStatuses": [again]}


def ended(pod: Object, code: int, now: float, reason: str = "") -> Object:
    """Its container has ended for good."""
    own, phase = _own(pod), "Failed" if code else "Succeeded"
    why = reason or ("Error" if code else "Completed")
    end = {"exitCode": code, "reason": why, "startedAt": _started(own) or stamp(now), "finishedAt": stamp(now)}
    status = {"phase": phase, "containerStatuses": [{**own, "ready": False, "state": {"terminated": end}}]}
    return status | _conditions(pod, "Ready", ready=False)


def disrupted(pod: Object, reason: str, now: float) -> Object:
    """Somebody is about to take it away, and says so; its phase comes later."""
    return _conditions(pod, "DisruptionTarget", reason, ready=True, lastTransitionTime=stamp(now))


def rejected(reason: str) -> Object:
    """The kubelet has put an end to it, and knows of no container."""
    return {"phase": "Failed", "reason": reason, "message": f"The node had condition or lacked room: {reason}."}


def _conditions(pod: Object, kind: str, reason: str = "", *, ready: bool, **more: str) -> Object:
    told = {"type": kind, "status": "True" if ready else "False", "reason": reason, **more}
    others = [one for one in pod.get("status", {}).get("conditions", ()) if one["type"] != kind]
    return {"conditions": [*others, told]}


def _own(pod: Object) -> Object:
    known = pod.get("status", {}).get("containerStatuses")
    name = pod["spec"]["containers"][0]["name"]
    return dict(known[0]) if known else {"name": name, "image": "x", "imageID": "", "ready": False, "restartCount": 0}


def _started(own: Object) -> str:
    state = own.get("state", {})
    return str((state.get("running") or state.get("terminated") or {}).get("startedAt", ""))

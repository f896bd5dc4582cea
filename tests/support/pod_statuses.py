"""The statuses of pods, as kubelets write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]


def timestamp(now: float) -> str:
    """Return seconds since 1970 as a timestamp of the API."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def waiting(pod: Object, reason: str) -> Object:
    """Return the status of a pod that is bound and waits for its image."""
    return {"phase": "Pending", "containerStatuses": [{**_container(pod), "state": {"waiting": {"reason": reason}}}]}


def running(pod: Object, now: float, *, ready: bool = True) -> Object:
    own = _container(pod)
    state = {"running": {"startedAt": _started(own) or timestamp(now)}}
    status = {"phase": "Running", "containerStatuses": [{**own, "ready": ready, "state": state}]}
    return status | _conditions(pod, "Ready", ready=ready, lastTransitionTime=timestamp(now))


def restarted(pod: Object, code: int, now: float) -> Object:
    """Return the status of a pod whose container has ended with this code and was restarted by the kubelet."""
    own, end = _container(pod), timestamp(now)
    last = {"terminated": {"exitCode": code, "reason": "Error", "startedAt": _started(own), "finishedAt": end}}
    count, state = own.get("restartCount", 0) + 1, {"running": {"startedAt": end}}
    again = {**own, "restartCount": count, "state": state, "lastState": last, "ready": True}
    return {"phase": "Running", "containerStatuses": [again]}


def ended(pod: Object, code: int, now: float, reason: str = "", message: str = "") -> Object:
    """Return the status of a pod whose container has ended with this code."""
    own, phase, end = _container(pod), "Failed" if code else "Succeeded", timestamp(now)
    why = reason or ("Error" if code else "Completed")
    state = {"exitCode": code, "reason": why, "startedAt": _started(own) or end, "finishedAt": end}
    if message:
        state["message"] = message
    status = {"phase": phase, "containerStatuses": [{**own, "ready": False, "state": {"terminated": state}}]}
    return status | _conditions(pod, "Ready", ready=False)


def disrupted(pod: Object, reason: str, now: float) -> Object:
    """Return the status of a pod with the condition DisruptionTarget; its phase changes later."""
    return _conditions(pod, "DisruptionTarget", reason, ready=True, lastTransitionTime=timestamp(now))


def preempted(pod: Object, now: float) -> Object:
    """Return the status of a pod that the scheduler has preempted."""
    gone = {**pod, "status": _conditions(pod, "Ready", ready=False)}
    return disrupted(gone, "PreemptionByScheduler", now) | {"phase": "Failed", "reason": "Preempted"}


def rejected(reason: str) -> Object:
    """Return the status of a pod that the kubelet has failed without container statuses."""
    return {"phase": "Failed", "reason": reason, "message": f"The node had condition or lacked room: {reason}."}


def _conditions(pod: Object, kind: str, reason: str = "", *, ready: bool, **more: str) -> Object:
    new = {"type": kind, "status": "True" if ready else "False", "reason": reason, **more}
    others = [one for one in pod.get("status", {}).get("conditions", ()) if one["type"] != kind]
    return {"conditions": [*others, new]}


def _container(pod: Object) -> Object:
    known = pod.get("status", {}).get("containerStatuses")
    name = pod["spec"]["containers"][0]["name"]
    return dict(known[0]) if known else {"name": name, "image": "x", "imageID": "", "ready": False, "restartCount": 0}


def _started(own: Object) -> str:
    state = own.get("state", {})
    return str((state.get("running") or state.get("terminated") or {}).get("startedAt", ""))

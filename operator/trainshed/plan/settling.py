"""The delay before a failure ends the job: its cause may be another replica's failure that is not observed yet."""

from __future__ import annotations

from datetime import datetime, timedelta

from trainshed.api.objects import Phase
from trainshed.api.status import Failure

from . import failures, restarts
from .facts import Facts

#: Two kubelets report two failures in any order, each within two seconds: a kubelet checks its containers once a
#: second, and then the report must arrive. The third second is the rounding of termination times to whole seconds.
SETTLES_AFTER = timedelta(seconds=3)


def until(facts: Facts) -> datetime | None:
    """Return the end of the delay, or None if there is none. It is computed from the pods, so it survives a restart.

    There is no delay if no other replica is left that may have failed before, if the failure has no termination time,
    or if that time is in the future by the operator's clock.
    """
    incident = restarts.incident(facts)
    failure = restarts.fatal(facts, incident) if incident else None
    if failure is None or failure.kind != failures.APPLICATION or not (_dated(facts, failure) and _others_run(facts)):
        return None
    end = failure.time + SETTLES_AFTER
    return end if failure.time <= facts.now < end else None


def _dated(facts: Facts, failure: Failure) -> bool:
    pods = (pod for pod in facts.current.values() if pod.name == failure.pod)
    ended = (failures.culprit(pod, facts.own_container) for pod in pods)
    return any(container.finished == failure.time for container in ended if container)


def _others_run(facts: Facts) -> bool:
    others = (pod for member, pod in facts.current.items() if member not in facts.failed)
    return any(pod.phase in (Phase.RUNNING, Phase.UNKNOWN) for pod in others)

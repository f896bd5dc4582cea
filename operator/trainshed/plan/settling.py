"""How long a failure that would end the job waits for its cause, which may be another's that is yet to be heard of."""

from __future__ import annotations

from datetime import datetime, timedelta

from trainshed.api.pod import Phase
from trainshed.api.status import Failure

from . import failures, restarts
from .facts import Facts

#: Two nodes tell of two ends in whichever order they like, each within two seconds of its end: a kubelet looks at
#: its containers once a second and then has to be heard. The third is what a time in whole seconds has lost.
SETTLES_AFTER = timedelta(seconds=3)


def until(facts: Facts) -> datetime | None:
    """When the first failure can be judged, if that is not yet: the time is the pods' own, and so outlives us.

    It is now if there is nobody left who may have failed before, and if nobody knows when it was, or only a clock that
    is ahead of ours.
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

"""Members whose pods have vanished unseen, and what has to be known before anybody is restarted for that."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from trainshed.api.job import Member, Replicas, Scope
from trainshed.api.pod import Pod
from trainshed.api.status import Kind, Status, Tally

from . import names
from .facts import Facts


def unseen(facts: Facts) -> tuple[Pod, ...]:
    """Where all restart together, pods that are known to be there, though no watch tells of them.

    One whose name another has by now is gone.
    """
    trouble = facts.snapshot.trouble
    if trouble is None or not trouble.hidden or facts.scope is not Scope.JOB:
        return ()
    return tuple(pod for pod in trouble.hidden if pod.name not in facts.present)


def vanished(facts: Facts) -> tuple[Member, ...]:
    """Where all restart together, members of whose pods nothing is heard, though they were there when last seen."""
    return facts.once(_vanished)


def _vanished(facts: Facts) -> tuple[Member, ...]:
    known = hidden(facts)
    if facts.scope is not Scope.JOB or not facts.status.true(Kind.RUNNING):
        return known
    if facts.seats.keys() <= facts.present or facts.stale:  # the first is all that most looks have to know
        return known
    shrunk = facts.status.shrunk | facts.seen.shrunk  # some of whom the status tells have no seat any more
    steady = (group for group in facts.job.replicas if group.role not in shrunk)
    found = (member for group in steady for member in _fewer(facts, group))
    return (*known, *(member for member in found if member not in known))


def hidden(facts: Facts) -> tuple[Member, ...]:
    """Those of them whose pods are known to be there, and belong to the group as it is now."""
    seated = (pod for pod in unseen(facts) if pod.name in facts.seats and not facts.given_up(pod))
    return tuple(facts.seats[pod.name] for pod in seated if facts.seats[pod.name] in facts.missing)


def awaited(facts: Facts) -> tuple[str, ...]:
    """The names of all pods of which it has to be known whether they are there, before another is made."""
    missed = (names.child(facts.job, member) for member in vanished(facts))
    return tuple(dict.fromkeys((*missed, *(pod.name for pod in unseen(facts)))))


def untold(facts: Facts) -> tuple[str, ...]:
    """Where all restart together, the names of all pods that should be there and of which nothing is heard.

    The status tells a little late how many were running: whoever vanishes just as another fails may not be among them.
    """
    if facts.scope is not Scope.JOB or facts.seats.keys() <= facts.present:
        return ()
    return tuple(names.child(facts.job, member) for member in facts.missing)


def lost(facts: Facts) -> tuple[Member, ...]:
    """Those of them who are gone, once it is known of all."""
    return () if hidden(facts) else vanished(facts)


def seen(facts: Facts) -> Status:
    """The stored status with whatever the pods tell now; who is only hidden still counts as active.

    A pod that goes while it is hidden is missed by that, and not simply replaced in the midst of the others.
    """
    more = Counter(member.role for member in hidden(facts))
    counted = {role: replace(tally, active=tally.active + more[role]) for role, tally in facts.seen.tallies.items()}
    return replace(facts.seen, tallies=counted)


def _fewer(facts: Facts, group: Replicas) -> tuple[Member, ...]:
    """Of a role of which fewer are there than the status says were running."""
    stored = facts.status.tallies.get(group.role, Tally())
    wanted = min(stored.active + stored.succeeded, group.count) - len(facts.done[group.role])
    here = [member for member in facts.current if member.role == group.role and not facts.finished(member)]
    gone = [member for member in facts.missing if member.role == group.role]
    return tuple(gone[: max(0, wanted - len(here))])

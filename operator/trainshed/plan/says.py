"""What is told to users, in v1's words wherever v1 has words for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from trainshed.api import brevity, gang
from trainshed.api.actions import Action, DeleteDependent, Note, Tone
from trainshed.api.dependent import GROUP
from trainshed.api.job import Member, RestartPolicy
from trainshed.api.pod import Container, Pod
from trainshed.api.snapshot import Trouble
from trainshed.api.status import Failure, Kind, Status
from trainshed.api.write import MESSAGE

from . import asides
from .conditions import Word
from .facts import Facts
from .failures import APPLICATION, DISRUPTION, INFRASTRUCTURE
from .restarts import Incident

#: So many pods in trouble are told of in one look; more would say the same again.
ENOUGH = 10


def created(facts: Facts) -> Word:
    """That we know of the job."""
    return _word(facts, Kind.CREATED, f"{facts.job.kind} {facts.job.name} is created.")


def running(facts: Facts) -> Word:
    """That those who decide are running."""
    return _word(facts, Kind.RUNNING, f"{facts.job.kind} {_name(facts)} is running.")


def succeeded(facts: Facts) -> Word:
    """That it went well."""
    verb = "successfully completed" if facts.goal and facts.goal.qualified else "is successfully completed"
    return _word(facts, Kind.SUCCEEDED, f"{facts.job.kind} {_name(facts)} {verb}.")


def suspended(facts: Facts) -> Word:
    """That the job has no pods for now."""
    return _word(facts, Kind.SUSPENDED, f"{facts.job.kind} {facts.job.name} is suspended.")


def resumed(facts: Facts) -> Word:
    """That it may have pods again."""
    return replace(
        _word(facts, Kind.SUSPENDED, f"{facts.job.kind} {facts.job.name} is resumed."), reason=_reason(facts, "Resumed")
    )


def blocked(facts: Facts, trouble: Trouble) -> Word:
    """Why pods cannot be made, in the API server's own words, and how many are there nevertheless."""
    progress = f"{len(facts.current)} of {facts.job.size} pods created; retrying the rest"
    refusal = brevity.head(trouble.message.rstrip("."), MESSAGE - len(progress) - len("; "))
    return Word(Kind.BLOCKED, trouble.reason, f"{refusal}; {progress}")


def waiting_for_group(facts: Facts, phase: str, why: str) -> Word:
    """That the pods wait until Volcano lets their group in: its phase, and what Volcano says about it."""
    state = f"its phase is {phase}" if phase else "it has no phase yet"
    told = f"PodGroup {facts.job.name} has not been admitted: {state}{f' ({why})' if why else ''}"
    return Word(Kind.BLOCKED, gang.WAITING, brevity.head(told, MESSAGE))


def restarting(facts: Facts, incident: Incident, after: Status) -> Word:
    """That members are tried again, and because of whom; `after` is the status that says so."""
    member, failure = incident.first
    what = {
        DISRUPTION: f"were disrupted ({failure.reason})",
        INFRASTRUCTURE: f"failed with an infrastructure error ({failure.reason})",
    }
    told = f"job {facts.job.name} is restarting because {member.role} replica(s) {what.get(failure.kind, 'failed')}."
    return _word(facts, Kind.RESTARTING, told, asides.restarting(facts, incident, after))


def failed(facts: Facts, member: Member, failure: Failure) -> Word:
    """That a failure may not be tried again."""
    job = facts.job
    if failure.kind != APPLICATION:
        told = f"{job.kind} {job.name} has failed because pod {failure.pod} was disrupted ({failure.reason})."
    elif facts.group(member).restart_policy is RestartPolicy.EXIT_CODE:
        told = f'job "{job.name}" is failing because "{member.role}" replica(s) failed.'
    else:
        words = {"kind": job.kind, "namespace": job.namespace, "name": job.name, "role": member.role}
        told = facts.framework.naming.failure_message.format(**words, count=facts.tallies[member.role].failed or 1)
    return _word(facts, Kind.FAILED, told, asides.permanent(facts, member, failure))


def refused(facts: Facts) -> Word:
    """That the spec asks for what cannot be, and what that is."""
    return _word(facts, Kind.FAILED, "; ".join(facts.job.problems))


def too_many_tries(facts: Facts, aside: str) -> Word:
    """That the back-off limit is reached, and how."""
    told = f"Job {facts.job.name} has failed because it has reached the specified backoff limit"
    return _word(facts, Kind.FAILED, told, aside)


def too_long(facts: Facts) -> Word:
    """That the deadline is over."""
    told = f"Job {facts.job.name} has failed because it was active longer than specified deadline"
    return _word(facts, Kind.FAILED, told, asides.too_long(facts))


def failures(facts: Facts, incident: Incident | None = None) -> tuple[Note, ...]:
    """One event for each pod that failed, up to a few: with which code it exited, or who took it away.

    Those of an incident come first: they decide. All others are told of as well, for their pods may go with them. The
    warning about an incident is the job's own.
    """
    found = (incident.failures if incident else {}) | facts.failed
    notes = (_failure(facts, member, failure) for member, failure in islice(found.items(), ENOUGH))
    return tuple(replace(note, tone=Tone.NORMAL) if incident else note for note in notes)


def pods(facts: Facts) -> tuple[Note, ...]:
    """What keeps pods from running well: waiting containers, restarts in place, no node to go to."""
    active = (pod for pod in facts.current.values() if not pod.over and not pod.deleting)
    return tuple(islice((note for pod in active for note in _pod(pod)), ENOUGH))


def overwritten(facts: Facts) -> tuple[Note, ...]:
    """A warning, when pods are to be made, that the replica spec's restart policy counts and not the template's."""
    roles = {member.role for member in facts.missing}
    templates = (group.template for group in facts.job.replicas if group.role in roles)
    if not any((template.get("spec") or {}).get("restartPolicy") for template in templates):
        return ()
    told = "Restart policy in pod template will be overwritten by restart policy in replica spec"
    return (_lasting("SetPodTemplateRestartPolicy", told),)


def other_schedulers(facts: Facts) -> tuple[Note, ...]:
    """A warning, when pods are to be made, of another scheduler than the gang's: it stays, and may wait for ever."""
    ours = facts.snapshot.site.gang_scheduler
    named = {(group.template.get("spec") or {}).get("schedulerName") or "" for group in facts.job.replicas}
    if not ours or not facts.missing or named <= {"", gang.name(ours)}:
        return ()
    told = "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten"
    return (_lasting("SetPodTemplateSchedulerName", told),)


def gang_dismissed(actions: tuple[Action, ...]) -> tuple[Note, ...]:
    """That the pods of a job need no place together any more, if its pod group is to go."""
    groups = (action for action in actions if isinstance(action, DeleteDependent) and action.resource.kind == GROUP)
    told = "Job has been terminated. Deleting PodGroup"
    return tuple(Note(Tone.NORMAL, "JobTerminated", told, key=f"JobTerminated/{group.uid}") for group in groups)


def _lasting(reason: str, told: str) -> Note:
    return Note(Tone.WARNING, reason, told, key=reason)


def _failure(facts: Facts, member: Member, failure: Failure) -> Note:
    pod = facts.current.get(member)
    key = f"{pod.uid}/Failed" if pod else ""
    if failure.exit_code is not None:
        told = f"Pod: {facts.job.namespace}.{failure.pod} exited with code {failure.exit_code}"
        return Note(Tone.NORMAL, "ExitedWithCode", told, key=key)
    where = f" on node {failure.node}" if failure.node else ""
    disrupted = failure.kind == DISRUPTION
    end = f"was disrupted ({failure.reason})" if disrupted else f"failed ({failure.kind}: {failure.reason})"
    told = f"Pod {failure.pod}{where} {end}"
    whole = f"{told}: {failure.message}" if failure.message else told
    return Note(Tone.WARNING, f"Pod{failure.kind}", whole, key=key)


def _pod(pod: Pod) -> Iterator[Note]:
    if pod.unschedulable and not pod.containers:
        told = f"Error pod {pod.name} condition message: {pod.unschedulable}"
        reason = pod.unplaced or "Unschedulable"
        yield Note(Tone.WARNING, reason, told, key=f"{pod.uid}/{reason}")
    for container in pod.containers:
        if container.waiting and container.message:
            told = f"Error pod {pod.name} container {container.name} waiting message: {container.message}"
            yield Note(Tone.WARNING, container.reason, told, key=_key(pod, container))
        elif container.exit_code:
            told = (
                f"Error pod {pod.name} container {container.name} exitCode: {container.exit_code}"
                f" terminated message: {container.message}"
            )
            yield Note(Tone.WARNING, container.reason or "Error", told, key=_key(pod, container))


def _key(pod: Pod, container: Container) -> str:
    return f"{pod.uid}/{container.name}/{container.reason}/{container.restarts}"


def _word(facts: Facts, kind: Kind, message: str, aside: str = "") -> Word:
    """v1's words to the letter, and ours behind them."""
    joint = (" " if message.endswith(".") else ": ") if aside else ""
    return Word(kind, _reason(facts, kind), brevity.head(f"{message}{joint}{aside}", MESSAGE))


def _reason(facts: Facts, what: str) -> str:
    return f"{facts.job.kind}{what}"


def _name(facts: Facts) -> str:
    name = facts.job.name
    return f"{facts.job.namespace}/{name}" if facts.goal and facts.goal.qualified else name

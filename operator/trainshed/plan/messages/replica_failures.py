"""The failure of a replica in one sentence for the person on call: which replica, which node, what, and when."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from trainshed.api import coerce, foreign_text
from trainshed.api.job import SINGLETON_ROLES, Document, Replica
from trainshed.api.objects import Container, TerminatedState, start_of
from trainshed.api.quantities import parse_quantity
from trainshed.api.status import Failure
from trainshed.plan.facts import Facts
from trainshed.plan.failures import (
    APPLICATION,
    DISRUPTION,
    HANG,
    NEVER_RAN,
    SIGKILLED,
    TERMINATED,
    began,
    culprit,
    node_problems,
)

from .phrases import LINE, duration, last_line

#: Container runtimes report a signal as 128 plus its number; above 31 are real-time signals or plain exit codes.
SIGNALLED, SIGNALS = 128, range(1, 32)
#: The probes because of which a kubelet ends a container, and what stands before the one that may be the cause.
PROBES, PERHAPS = ("livenessProbe", "startupProbe"), "; perhaps"
#: Why a launcher may end with the exit code of a kill that it has not suffered.
OF_RANK = "only one of its ranks was, whose code mpirun returns"
#: The most bytes of the words about a node.
MOST_OF_NODE = 480
#: Explanations of reasons; other reasons are quoted as they are.
KNOWN: Mapping[str, str] = MappingProxyType(
    {
        "Deleted": "was deleted",
        "PodDisappeared": "disappeared",
        "Evicted": "was evicted by the kubelet",
        "EvictionByEvictionAPI": "was evicted through the API, for example by a node drain (EvictionByEvictionAPI)",
        "PreemptionByScheduler": "was preempted by a pod of higher priority (PreemptionByScheduler)",
        "DeletionByTaintManager": "was evicted from its node because of a taint (DeletionByTaintManager)",
        "DeletionByPodGC": "was removed after its node was lost (DeletionByPodGC)",
        "TerminationByKubelet": "was terminated by the kubelet (TerminationByKubelet)",
        **dict.fromkeys(("Terminated", "Shutdown"), "was terminated by the shutdown of its node"),
        **dict.fromkeys(("Preempting", "Preempted"), "was stopped by the kubelet to make room for a critical pod"),
        "NodeLost": "was lost with its node (NodeLost)",
        "NoProgress": "made no progress",
    }
)
#: What shells and runtimes mean by these exit codes.
CODES: Mapping[int, str] = MappingProxyType({126: "not executable", 127: "command not found"})


def with_message(facts: Facts, replica: Replica, failure: Failure) -> Failure:
    """Return the failure with the container's name, its run time and the summary, from the replica's pod.

    That of no pod is a hang of the job.
    """
    words = foreign_text.lines(failure.termination_message)
    if not failure.pod:
        return replace(failure, termination_message=words, message=f"the job {KNOWN[failure.reason]}")
    pod = facts.current.get(replica)
    own = facts.own_container(pod) if pod else None
    ended = culprit(pod, facts.group(replica).container) if pod else None
    container = ended.name if ended and ended.exit_code is not None and ended != own else ""
    full = replace(
        failure,
        replica=str(replica),
        container=container,
        ran=_duration(ended, failure.time) if ended else None,
        termination_message=words,
    )
    return replace(full, message=f"{_message(facts, replica, full)}{_of_node(facts, replica, full)}")


def _of_node(facts: Facts, replica: Replica, failure: Failure) -> str:
    """Return what has been read about the node, in parentheses."""
    reports, pod = facts.snapshot.node_reports, facts.current.get(replica)
    if not reports or pod is None:
        return ""
    found = node_problems(failure, began(pod, facts.group(replica).container), reports)
    meanwhile, older, others = (", ".join(texts) for texts in found)
    parts = (
        f"{failure.node} failed meanwhile: {meanwhile}" if meanwhile else "",
        f"{failure.node} had problems before: {older}" if older else "",
        f"said about {failure.node}: {others}" if others else "",
    )
    text = coerce.truncate_end("; ".join(filter(None, parts)), MOST_OF_NODE)
    return f" ({text})" if text else ""


def last_container_failure(facts: Facts) -> Failure | None:
    """Return the last failure of the replica whose container was restarted most often, or None if there is none."""
    replica = max(facts.current, key=facts.restarts_in_place, default=None)
    return None if replica is None else last_run(facts, replica)


def last_run(facts: Facts, replica: Replica) -> Failure | None:
    """Return how the last run of a replica ended whose container was started again in its pod, or None.

    Of one that has succeeded at last it is the run before.
    """
    pod = facts.current[replica]
    own = facts.own_container(pod)
    run = (own.before if own.exit_code == 0 else last_end(own)) if own and own.restarts else None
    if run is None:
        return None
    time = run.finished or facts.now
    full = Failure(
        pod.name, APPLICATION, run.reason or "Error", run.exit_code, pod.node, foreign_text.lines(run.message), time
    )
    named = replace(full, replica=str(replica), ran=_duration(run, time))
    return replace(named, message=_message(facts, replica, named))


def last_end(container: Container) -> TerminatedState | None:
    """Return the last terminated state of a container."""
    if container.exit_code is None:
        return container.before
    times = (container.started, container.finished)
    return TerminatedState(container.exit_code, *times, reason=container.reason, message=container.message)


def sentence(failure: Failure) -> str:
    """Return the summary and the last line of the termination message, where a traceback has the exception.

    What a program that was killed printed last is no cause, and is not said as if it were.
    """
    line = last_line(failure.termination_message)
    joint = "; its last line: " if _is_killed(failure) else ": "
    return f"{failure.message}{joint}{coerce.truncate_end(line, LINE)}" if line else failure.message


def _is_killed(failure: Failure) -> bool:
    """Return whether something else than the program has ended it; with SIGABRT it ends itself, and says why."""
    by_signal = failure.kind == APPLICATION and (failure.exit_code or 0) - SIGNALLED in SIGNALS
    known = failure.reason in ("", "Error") and failure.exit_code != SIGNALLED + signal.SIGABRT
    return failure.reason == "OOMKilled" or (by_signal and known)


def with_last_line(failure: Failure) -> Failure:
    """Return the failure with the last line of its termination message in its message, as the status keeps it."""
    return replace(failure, message=sentence(failure))


def of_job(facts: Facts, reason: str, message: str) -> Failure:
    """Return the failure of a job by something else than a replica, with the failure before it in its message."""
    before = facts.status.failure
    earlier = f"; the failure before: {before.message}" if before and before.message else ""
    return Failure("", APPLICATION, reason, None, "", "", facts.now, message=f"{message}{earlier}")


def ending(facts: Facts, replica: Replica, failure: Failure) -> str:
    """Return how the replica ended, as a predicate, such as `could not be started (StartError)`."""
    return _end(failure, _limit(facts, replica, failure) if failure.reason == "OOMKilled" else "")


def _message(facts: Facts, replica: Replica, failure: Failure) -> str:
    subject = f"container {failure.container} of {replica}" if failure.container else str(replica)
    where = f" on {failure.node}" if failure.node else ""
    end = ending(facts, replica, failure)
    perhaps = _perhaps_because(facts, replica, failure)
    if failure.ran is None:
        return f"{subject}{where} {end}{perhaps}"
    after = f"after {duration(failure.ran)}" if end.startswith("exited") else f"{duration(failure.ran)} after start"
    return f"{subject}{where} {end} {after}{perhaps}"


def _perhaps_because(facts: Facts, replica: Replica, failure: Failure) -> str:
    """Return what may have ended a container that was killed and of which the kubelet does not say why.

    Only Events say whether a probe did. Of kills for too much memory, containerd 2.3 reported 7 of 80 as mere Errors on
    a busy node: it had not read the cgroup's count before the kubelet asked. Where a rank is killed, Open MPI and MPICH
    end with 137 themselves, in whichever pod the rank was.
    """
    if failure.kind != APPLICATION or failure.reason not in ("", "Error") or failure.exit_code not in TERMINATED:
        return ""
    own = _template_of(facts, replica, failure)
    found = [f"its {name} failed" for name in PROBES if own.get(name)][:1]
    if failure.exit_code == SIGKILLED:
        found += [OF_RANK] if replica.role in SINGLETON_ROLES and not failure.container else []
        limit = _limit(facts, replica, failure)
        found += [f"it used more memory than its limit of {limit}"] if limit else []
    return f"{PERHAPS} {', or '.join(found)}" if found else ""


def by_probe(failure: Failure, said: str) -> str:
    """Return the summary of a failure of which the kubelet `said` that it killed the container because of a probe.

    `said` begins with the kind of the probe, such as `Liveness probe failed`.
    """
    summary, code = failure.message.partition(PERHAPS)[0], failure.exit_code or 0
    name, kind = signal.Signals(code - SIGNALLED).name, said.partition(" ")[0].lower()
    return summary.replace(exited(code), f"was killed by the kubelet, as its {kind} probe failed ({name}, {code}),")


def _end(failure: Failure, limit: str) -> str:
    code, reason = failure.exit_code, failure.reason
    if reason == "OOMKilled":
        return f"was OOMKilled ({f'limit {limit}' if limit else 'no memory limit set'})"
    if reason == "ExitedEarly":
        return "exited too early" + (f" with code {code}" if code is not None else "")
    if reason in NEVER_RAN:
        return f"could not be started ({reason})"
    if failure.kind in (DISRUPTION, HANG):
        return KNOWN.get(reason, f"was disrupted ({reason})")
    if code is None:
        return f"{'failed' if failure.kind == APPLICATION else 'failed with an infrastructure error'} ({reason})"
    return exited(code) + ("" if reason in ("Error", "") else f" ({reason})")


def exited(code: int) -> str:
    """Return how a program with this exit code ended, as a predicate, such as `was killed by SIGKILL (137)`."""
    number = code - SIGNALLED
    if number == signal.SIGSEGV:
        return f"crashed with a segmentation fault (SIGSEGV, {code})"
    if number in SIGNALS:
        return f"was killed by {signal.Signals(number).name} ({code})"
    return f"exited with code {code}" + (f" ({CODES[code]})" if code in CODES else "")


def _duration(run: Container | TerminatedState, ended: datetime) -> int | None:
    started = start_of(run)
    return max(0, round((ended - started).total_seconds())) if started else None


def _limit(facts: Facts, replica: Replica, failure: Failure) -> str:
    """Return the memory limit of the container, else that of its pod, as written in the template; empty without one."""
    own = _memory(_template_of(facts, replica, failure))
    of_pod = _memory(_mapping(facts.group(replica).template.get("spec")))
    return own or (f"{of_pod} of the whole pod" if of_pod else "")


def _memory(resources_of: Mapping[str, Any]) -> str:
    """Return the memory limit of a container or a pod; 0 is none."""
    amount = _mapping(_mapping(resources_of.get("resources")).get("limits")).get("memory")
    return str(amount) if amount is not None and parse_quantity(amount) else ""


def _template_of(facts: Facts, replica: Replica, failure: Failure) -> Mapping[str, Any]:
    """Return what the template says of the container that has failed; empty if it has none of that name."""
    containers = _containers(facts.group(replica).template)
    wanted = failure.container or facts.group(replica).container
    return next((item for item in containers if item.get("name") == wanted), {})


def _containers(template: Document) -> list[Mapping[str, Any]]:
    spec = _mapping(template.get("spec"))
    listed = (item for part in ("containers", "initContainers") for item in spec.get(part) or ())
    return [item for item in listed if isinstance(item, dict)]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

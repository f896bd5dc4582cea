"""Recorded decisions as steps that people read: what changed, which rule decided, and what followed from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from trainshed.api.actions import Snapshot
from trainshed.api.coerce import as_mapping, as_sequence, parse_text
from trainshed.api.job import Document
from trainshed.api.objects import Container, Pod
from trainshed.plan.rules import RULES

from .recording import Decision

#: What each rule does, as its own documentation says.
SENTENCES = {rule.__name__: (rule.__doc__ or rule.__name__).partition("\n")[0] for rule in RULES}
#: The most names in a sentence.
NAMED = 6
#: What is said if no step is about a pod.
NONE_ABOUT_POD = "no decision is about that pod"
#: What actions do, in words, and where the name of the object is.
VERBS = {
    "CreatePod": "create pod",
    "DeletePod": "delete pod",
    "ReleasePod": "remove the finalizer of pod",
    "CreateService": "create Service",
    "DeleteService": "delete Service",
    "CreateSshSecret": "create Secret",
    "CreateDependent": "create",
    "UpdateDependent": "update",
    "DeleteDependent": "delete",
    "DeleteJob": "delete the job",
}


class Step(msgspec.Struct, frozen=True):
    """A decision in words; `pods` are the names of the pods that the facts or the actions are about."""

    n: int
    time: datetime
    facts: tuple[str, ...]
    rule: str
    why: str
    actions: tuple[str, ...]
    pods: frozenset[str]
    notes: tuple[str, ...] = ()


def steps(decisions: Iterable[Decision]) -> Iterator[Step]:
    """Yield the steps; the facts of each are what differs from what the decision before it saw."""
    before: Snapshot | None = None
    for place, decision in enumerate(decisions):
        facts = [*_facts(before, decision.saw)] if decision.saw else []
        actions = [*_actions(decision.plan)]
        yield Step(
            n=decision.n,
            time=decision.time,
            facts=tuple(_grouped(facts)) or (_no_facts(before, decision),),
            rule=decision.rule,
            why=SENTENCES.get(decision.rule, ""),
            actions=(*_status(decision), *_events(decision.plan), *_grouped(actions)) or ("nothing",),
            pods=frozenset(name for _, name in (*facts, *actions) if name),
            notes=tuple(_notes(decision, is_first=place == 0)),
        )
        before = decision.saw


def _notes(decision: Decision, *, is_first: bool) -> Iterator[str]:
    if decision.after_restart and not is_first:
        yield "the operator started again: decisions of the last half minute before may be missing"
    if is_first and (decision.after_restart or decision.n > 1):
        yield "the record begins here: earlier decisions are not in it"
    if decision.missed:
        yield f"{decision.missed} decisions before this one were not kept"
    if decision.saw is None:
        yield f"what the planner saw is not known: {decision.unread}"


def _no_facts(before: Snapshot | None, decision: Decision) -> str:
    if decision.saw is None or before is None:
        return "what changed is not known"
    return f"only time has passed: {(decision.saw.now - before.now).total_seconds():.0f} s"


#: A sentence with a place for the name of a pod, and that name; or a whole sentence and no name.
Fact = tuple[str, str]


def _grouped(found: Iterable[Fact]) -> Iterator[str]:
    """Yield sentences, those that differ only in the name of the pod as one."""
    names: dict[str, list[str]] = {}
    for sentence, name in found:
        names.setdefault(sentence, []).append(name)
    for sentence, known in names.items():
        more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
        several = sentence.replace("pod {} is", "pods {} are").replace("pod {}", "pods {}")
        yield (several if len(known) > 1 else sentence).replace("{}", ", ".join(known[:NAMED]) + more)


def _facts(before: Snapshot | None, now: Snapshot) -> Iterator[Fact]:
    job = now.job
    if before is None:
        there = f"{len(now.pods)} pods" if now.pods else "no pods"
        yield f"the job of {job.size} replicas has {there}, its state is {now.status.current_state}", ""
        return
    yield from ((sentence, "") for sentence in _changes_of_job(before, now))
    known, remaining = {pod.uid: pod for pod in before.pods}, {pod.uid for pod in now.pods}
    for pod in now.pods:
        yield from ((sentence, pod.name) for sentence in _changes_of_pod(known.get(pod.uid), pod))
    yield from (("pod {} is gone", pod.name) for pod in before.pods if pod.uid not in remaining)


def _changes_of_job(before: Snapshot, now: Snapshot) -> Iterator[str]:
    if before.job.generation != now.job.generation:
        yield f"the spec has changed (generation {before.job.generation} to {now.job.generation})"
    if before.job.policy.suspend != now.job.policy.suspend:
        yield "the spec says suspend" if now.job.policy.suspend else "the spec no longer says suspend"
    if now.job.deleting and not before.job.deleting:
        yield "a user has deleted the job"
    if now.refusal and now.refusal != before.refusal:
        yield f"the API server has refused a pod: {now.refusal.reason}: {now.refusal.message}"
    if before.refusal and not now.refusal:
        yield "the API server accepts pods again"
    if now.training and now.training.column and now.training.column != (before.training and before.training.column):
        yield f"the training has reported {now.training.column}"


def _changes_of_pod(before: Pod | None, pod: Pod) -> Iterator[str]:
    if before is None:
        yield f"pod {{}} is there, {pod.phase}"
    elif before.phase is not pod.phase:
        yield f"pod {{}} is {pod.phase}" + (f" ({pod.reason})" if pod.reason else "")
    known = {one.name: one for one in before.containers} if before else {}
    for one in pod.containers:
        if sentence := _end_of(known.get(one.name), one):
            yield sentence
    if pod.disruption and not (before and before.disruption):
        yield f"pod {{}} is to be evicted: {pod.disruption}"
    if pod.deleting and not (before and before.deleting):
        yield "pod {} is being deleted"
    if pod.node and before and not before.node:
        yield f"pod {{}} is on {pod.node}"


def _end_of(before: Container | None, container: Container) -> str:
    reason = f" ({container.reason})" if container.reason not in ("", "Error", "Completed") else ""
    if container.exit_code is not None and (before is None or before.exit_code is None):
        return f"container {container.name} of pod {{}} has ended with exit code {container.exit_code}{reason}"
    if before and container.restarts > before.restarts:
        return f"the kubelet has started container {container.name} of pod {{}} again"
    return ""


def _status(decision: Decision) -> Iterator[str]:
    """Yield what a decision changes in the status, as far as users know it."""
    changed = as_mapping(decision.plan.get("status"))
    known = {one.type: one for one in decision.saw.status.conditions} if decision.saw else {}
    for item in map(as_mapping, as_sequence(changed.get("conditions"))):
        kind, true = parse_text(item.get("type")), item.get("true") is True
        old = next((one for name, one in known.items() if name == kind), None)
        if old is None or old.true != true or (true and old.reason != item.get("reason")):
            yield f"status: {kind} is {true}: {parse_text(item.get('message'))}"
    for role, attempt in as_mapping(changed.get("attempts")).items():
        if decision.saw and decision.saw.status.attempts.get(role, 0) != attempt:
            yield f"status: {role} is in attempt {attempt}"


def _events(plan: Document) -> Iterator[str]:
    for event in map(as_mapping, as_sequence(plan.get("events"))):
        yield f"Event {parse_text(event.get('reason'))}: {parse_text(event.get('message'))}"


def _actions(plan: Document) -> Iterator[Fact]:
    for item in as_sequence(plan.get("actions")):
        kind, action = parse_text((*as_sequence(item), "")[0]), as_mapping((*as_sequence(item), None, None)[1])
        verb, name = VERBS.get(kind, kind), parse_text(action.get("name"))
        if kind.endswith("Pod"):
            yield f"{verb} {{}}", name
        else:
            what = parse_text(as_mapping(action.get("resource")).get("kind"))
            yield " ".join(filter(None, (verb, what, name))), ""


def about_pod(found: Iterable[Step], pod: str) -> list[Step]:
    """Return the steps that are about a pod."""
    return [step for step in found if pod in step.pods]


def why_deleted(decisions: Iterable[Decision], pod: str) -> list[str]:
    """Return a sentence for each time that pods of this name went: by which decision, or that it was none."""
    sentences, asked, before = list[str](), dict[str, str](), dict[str, Pod]()
    for decision in decisions:
        if decision.saw is not None:
            now = {one.uid: one for one in decision.saw.pods if one.name == pod}
            for uid, gone in before.items():
                if uid not in now and uid not in asked:
                    sentences.append(_not_by_us(gone, decision))
            before = now
        for item in as_sequence(decision.plan.get("actions")):
            kind, action = (*as_sequence(item), None, None)[:2]
            if kind == "DeletePod" and as_mapping(action).get("name") == pod:
                uid = parse_text(as_mapping(action).get("uid"))
                if asked.setdefault(uid, decision.rule) == decision.rule and len(asked) > len(sentences):
                    sentences.append(_by_us(pod, decision))
    return list(dict.fromkeys(sentences))


def _by_us(pod: str, decision: Decision) -> str:
    why = SENTENCES.get(decision.rule, decision.rule)
    last_event = "".join(f" {said}" for said in [*_events(decision.plan)][-1:])
    return (
        f"decision {decision.n} deleted {pod} at {clock(decision.time)} by the rule {decision.rule}: {why}{last_event}"
    )


def _not_by_us(pod: Pod, decision: Decision) -> str:
    cause = f"it was disrupted: {pod.disruption}" if pod.disruption else "another client deleted it"
    return f"no decision deleted the {pod.name} that was gone at {clock(decision.time)}: {cause}"


def clock(time: datetime) -> str:
    """Return a time to the second, in UTC."""
    return f"{time:%Y-%m-%d %H:%M:%SZ}"


def as_json(step: Step) -> dict[str, Any]:
    """Return a step for programs."""
    return {
        "n": step.n,
        "time": step.time.isoformat(),
        "facts": [*step.facts],
        "rule": step.rule,
        "why": step.why,
        "actions": [*step.actions],
        "pods": sorted(step.pods),
        "notes": [*step.notes],
    }

"""Checks of a cluster before a migration, and a dry run for each of its jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

import msgspec
from msgspec.structs import replace

from trainshed.api import foreign_text
from trainshed.api.actions import (
    Action,
    CreateDependent,
    CreateService,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    DeleteService,
    Plan,
    Snapshot,
    UpdateDependent,
)
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.api.objects import Pod
from trainshed.api.status import ConditionType, Status
from trainshed.plan import plan

from .operators import OWN, V1, ClusterState, image, pod_count, where

GROUP = "kubeflow.org"
#: The replicas of the Deployment of the chart and of the manifests.
REPLICAS = 2
NO_OPERATOR = "new jobs have no STATE, and no job is started, restarted or cleaned up"


class State(StrEnum):
    """The state of a part of the cluster."""

    OK = "ok"
    ACTION_REQUIRED = "action required"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Check:
    """The state of a part of the cluster, a sentence about it, and the command that corrects it, if there is one."""

    state: State
    message: str
    command: str = ""


def run_checks(cluster_state: ClusterState, frameworks: Iterable[Framework]) -> Iterator[Check]:
    """Yield the checks, in the order of the steps of the migration."""
    yield from _operators(cluster_state)
    yield from _own_operator(cluster_state)
    yield from _unconfirmed(cluster_state)
    yield from _webhooks(cluster_state)
    for framework in frameworks:
        yield _definition(cluster_state, framework)


def _operators(cluster_state: ClusterState) -> Iterator[Check]:
    if not cluster_state.v1_deployments:
        yield Check(State.OK, "no Deployment of training-operator v1 found")
    for item in cluster_state.v1_deployments:
        if not pod_count(item):
            yield Check(State.OK, f"training-operator v1 is stopped: Deployment {where(item)} has no pods")
        elif cluster_state.trainshed_runs:
            message = f"{_running('training-operator v1', item)}; two operators undo each other's work, stop v1 now"
            yield Check(State.ERROR, message, _scale(item, 0))
        else:
            yield Check(State.ACTION_REQUIRED, _running("training-operator v1", item), _scale(item, 0))


def _own_operator(cluster_state: ClusterState) -> Iterator[Check]:
    for item in cluster_state.trainshed_deployments[:1]:
        if (item.get("status") or {}).get("readyReplicas"):
            yield Check(State.OK, _running("Trainshed", item))
        else:
            message = f"{_running('Trainshed', item)}, none of them ready; {NO_OPERATOR}"
            yield Check(State.ERROR, message, f"{_kubectl(item)} get pods,lease")
    for item in cluster_state.trainshed_deployments[1:]:
        message = f"{_running('Trainshed', item)}; stop it unless the operators have different namespaces or kinds"
        yield Check(State.ERROR, message, _scale(item, 0))
    if not (cluster_state.trainshed_deployments or cluster_state.v1_runs):
        yield _missing_operator(cluster_state)


def _missing_operator(cluster_state: ClusterState) -> Check:
    stopped = next(iter(cluster_state.own_deployments), None)
    if stopped:
        message = f"Trainshed is stopped: Deployment {where(stopped)} has no pods; {NO_OPERATOR}"
        return Check(State.ACTION_REQUIRED, message, _scale(stopped, REPLICAS))
    if cluster_state.unconfirmed(OWN):  # which may be the operator of single namespaces
        return Check(State.ACTION_REQUIRED, f"no operator of the whole cluster is running; without one {NO_OPERATOR}")
    return Check(State.ACTION_REQUIRED, f"no operator is running; {NO_OPERATOR}", "kubectl apply -k manifests/")


def _unconfirmed(cluster_state: ClusterState) -> Iterator[Check]:
    """Yield what any user could have made: it is named, and decides nothing."""
    advice = {
        V1: "nothing here counts it as v1; if it is, stop it, and give its flags after --",
        OWN: "nothing here counts it as Trainshed; it is right only if it manages single namespaces",
    }
    for what, sentence in advice.items():
        names = [where(item) for item in cluster_state.unconfirmed(what)]
        if not names:
            continue
        found = listed(names, "Deployment")
        message = f"no ClusterRoleBinding gives the rights of {what} to {found}, which any user may have created"
        yield Check(State.ACTION_REQUIRED, f"{message}: {sentence}")


def _running(what: str, item: Document) -> str:
    pods = pod_count(item)
    return f"{what} is running: Deployment {where(item)}, {pods} {'pod' if pods == 1 else 'pods'}, {image(item)}"


def _scale(item: Document, replicas: int) -> str:
    return f"{_kubectl(item)} scale deployment/{item['metadata']['name']} --replicas={replicas}"


def _kubectl(item: Document) -> str:
    return f"kubectl --namespace {item['metadata']['namespace']}"


def _webhooks(cluster_state: ClusterState) -> Iterator[Check]:
    found = [item["metadata"]["name"] for item in cluster_state.v1_webhooks]
    if not found:
        yield Check(State.OK, "no webhook configuration of training-operator v1 found")
    for name in found:
        message = f"v1's webhook configuration {name} exists"
        if cluster_state.v1_runs:
            message += ": as soon as v1 is stopped, every create and update of a job fails because the webhook is down"
        else:
            message += ", but v1 is not running: every create and update of a job fails because the webhook is down"
        state = State.ACTION_REQUIRED if cluster_state.v1_runs else State.ERROR
        yield Check(state, message, f"kubectl delete validatingwebhookconfiguration {name}")


def _definition(cluster_state: ClusterState, framework: Framework) -> Check:
    file = f"crds/{'' if framework.version == 'v1' else f'{framework.version}/'}{GROUP}_{framework.plural}.yaml"
    name = f"{framework.plural}.{GROUP}"
    crd = f"CRD {name}"
    found = next((item for item in cluster_state.definitions if item["metadata"]["name"] == name), None)
    if found is None:
        return Check(State.ACTION_REQUIRED, f"{crd} is not installed", f"kubectl create -f {file}")
    served = [version["name"] for version in found["spec"]["versions"] if version.get("served")]
    if framework.version not in served:
        message = f"{crd} serves {', '.join(served)}, not {framework.version}: see docs/kinds/mpijob.md"
        return Check(State.ACTION_REQUIRED, message)
    if _has_our_status(found):
        return Check(State.OK, f"{crd} is Trainshed's")
    message = f"{crd} is v1's: it drops Trainshed's status fields and does not validate jobs"
    return Check(
        State.ERROR if cluster_state.trainshed_runs else State.ACTION_REQUIRED, message, f"kubectl replace -f {file}"
    )


def _has_our_status(definition: Document) -> bool:
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") or {} for version in definition["spec"]["versions"]]
    statuses = [schema.get("properties", {}).get("status", {}).get("properties", {}) for schema in schemas]
    return any("attempts" in status for status in statuses)


#: Reconciles in a row that are computed: enough for a terminal condition and the clean-up that follows from it.
RECONCILES = 5
#: Names that a sentence lists; the rest are counted.
NAMES = 3
#: Sentences of a forecast, and characters of one of them.
MESSAGES, LONGEST = 10, 500


class Severity(IntEnum):
    """The severity of the changes to a job."""

    UNCHANGED = 0
    WILL_CHANGE = 1
    NEEDS_ATTENTION = 2


class JobForecast(msgspec.Struct, frozen=True):
    """The forecast for a job: the severity, and sentences about the changes; no sentence if nothing changes.

    It has no part of the job, which may be large.
    """

    subject: str
    severity: Severity
    messages: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.subject}: {'; '.join(self.messages) or 'no change'}"


def subject(snapshot: Snapshot) -> str:
    """Return which job this is, its state as `kubectl get` prints it in the column STATE, and its pods."""
    job, pods = snapshot.job, len(snapshot.pods)
    state = snapshot.status.current_state
    return f"{job.kind} {job.namespace}/{job.name} ({state}, {pods} {'pod' if pods == 1 else 'pods'})"


def dry_run(snapshot: Snapshot) -> JobForecast:
    """Return the forecast for a job: a change needs attention if it harms the job, or pods that are still running.

    However long the names and values of a job are, and however many errors it has, a forecast is short.
    """
    forecast = _forecast(snapshot)
    messages = [foreign_text.one_line(message, LONGEST) for message in forecast.messages[:MESSAGES]]
    more = [f"{len(forecast.messages) - MESSAGES} more"] if len(forecast.messages) > MESSAGES else []
    return replace(forecast, messages=(*messages, *more))


def _forecast(snapshot: Snapshot) -> JobForecast:
    job = snapshot.job
    if job.policy.managed_elsewhere:
        return JobForecast(
            subject(snapshot),
            Severity.UNCHANGED,
            ("not reconciled: spec.runPolicy.managedBy names another controller",),
        )
    if job.problems:
        return JobForecast(
            subject(snapshot),
            Severity.WILL_CHANGE if snapshot.status.over else Severity.NEEDS_ATTENTION,
            _invalid(snapshot),
        )
    plans = tuple(_plans(snapshot))
    forecast = JobForecast(subject(snapshot), Severity.UNCHANGED, ())
    for part in (_conditions(snapshot, plans), _deletions(snapshot, plans), _other_changes(snapshot, plans)):
        forecast = replace(
            forecast, severity=max(forecast.severity, part.severity), messages=(*forecast.messages, *part.messages)
        )
    return forecast


def _plans(snapshot: Snapshot) -> Iterator[Plan]:
    for _ in range(RECONCILES):
        decision = plan(snapshot)
        yield decision
        if decision.actions or decision.status == snapshot.status:
            return
        snapshot = replace(snapshot, status=decision.status)


def _invalid(snapshot: Snapshot) -> tuple[str, ...]:
    if snapshot.status.over:
        result = "the job is finished and stays unchanged"
    elif snapshot.status.start is None:
        result = "the job would fail immediately"
    else:
        result = "the job would be neither restarted nor cleaned up until its spec is corrected"
    return (f"its spec is invalid: {result}", *snapshot.job.problems)


def _conditions(snapshot: Snapshot, plans: tuple[Plan, ...]) -> JobForecast:
    """Return the conditions that would be added, changed or removed."""
    before, after = snapshot.status, plans[-1].status
    changed = [
        condition
        for condition in after.conditions
        if (known := before.condition(condition.type)) is None or known.true != condition.true
    ]
    messages = [f"{item.type}={item.true} ({item.message})" for item in changed]
    messages += [f"condition {item.type} removed" for item in before.conditions if after.condition(item.type) is None]
    fails = after.true(ConditionType.FAILED) and not before.true(ConditionType.FAILED)
    severity = (
        Severity.NEEDS_ATTENTION
        if fails or _restarts(before, after)
        else Severity.WILL_CHANGE
        if messages
        else Severity.UNCHANGED
    )
    return JobForecast(subject(snapshot), severity, tuple(messages))


def _restarts(before: Status, after: Status) -> bool:
    return after.retries.used > before.retries.used or not set(after.pending_replacement) <= set(
        before.pending_replacement
    )


def _deletions(snapshot: Snapshot, plans: tuple[Plan, ...]) -> JobForecast:
    """Return the deletions of pods, or of the job itself."""
    actions = [action for step in plans for action in step.actions]
    if any(isinstance(action, DeleteJob) for action in actions):
        return JobForecast(
            subject(snapshot), Severity.WILL_CHANGE, ("job deleted: ttlSecondsAfterFinished has passed",)
        )
    uids = {action.uid for action in actions if isinstance(action, DeletePod)}
    deleted = [pod for pod in snapshot.pods if pod.uid in uids]
    if not deleted:
        return JobForecast(subject(snapshot), Severity.UNCHANGED, ())
    status = plans[-1].status
    wanted = not (status.over or status.true(ConditionType.SUSPENDED))
    severity = Severity.NEEDS_ATTENTION if wanted and any(_active(pod) for pod in deleted) else Severity.WILL_CHANGE
    return JobForecast(subject(snapshot), severity, (f"{listed([pod.name for pod in deleted])} deleted",))


def _active(pod: Pod) -> bool:
    return not pod.over and not pod.deleting


def _other_changes(snapshot: Snapshot, plans: tuple[Plan, ...]) -> JobForecast:
    """Return the objects that would be created, updated or deleted, except for deleted pods and the job."""
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for action in (action for step in plans for action in step.actions):
        if not isinstance(action, (DeletePod, DeleteJob)):
            groups[_kind_and_verb(action)].append(action.name)
    messages = [f"{listed(names, kind)} {verb}" for (kind, verb), names in groups.items()]
    return JobForecast(subject(snapshot), Severity.WILL_CHANGE if messages else Severity.UNCHANGED, tuple(messages))


def _kind_and_verb(action: Action) -> tuple[str, str]:
    """Return the kind of the object, and the past participle of the verb."""
    match action:
        case CreateDependent() | UpdateDependent() | DeleteDependent():
            kind = action.resource.kind
        case CreateService() | DeleteService():
            kind = "Service"
        case _:
            kind = "pod"
    verbs = {"Create": "created", "Update": "updated", "Delete": "deleted"}
    return kind, verbs[type(action).__name__[:6]]


def listed(names: Sequence[str], kind: str = "pod") -> str:
    """Return the kind and some of the names, and how many more there are."""
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names[:NAMES])}{more}"

"""Checks of a cluster before a migration, and a dry run for each of its jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum

import msgspec
from msgspec.structs import replace

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

#: v1's objects are recognized by the label of its Deployment, and by the name of its Service and its webhook.
LABEL, V1 = ("control-plane", "kubeflow-training-operator"), "training-operator"
OWN_NAME, GROUP = "trainshed", "kubeflow.org"
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


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The objects from which the progress of the migration is determined."""

    deployments: tuple[Document, ...]
    webhooks: tuple[Document, ...]
    definitions: tuple[Document, ...]

    @property
    def v1_deployments(self) -> tuple[Document, ...]:
        """The Deployments of training-operator v1, in any namespace and with any image."""
        return tuple(item for item in self.deployments if _is_v1(item) and not _is_ours(item))

    @property
    def v1_runs(self) -> bool:
        """True if a Deployment of training-operator v1 has pods."""
        return any(map(_pods, self.v1_deployments))

    @property
    def trainshed_deployments(self) -> tuple[Document, ...]:
        """The Deployments of Trainshed that have pods."""
        return tuple(item for item in self.deployments if _is_ours(item) and _pods(item))

    @property
    def trainshed_runs(self) -> bool:
        """True if a Deployment of Trainshed has pods."""
        return bool(self.trainshed_deployments)


def run_checks(cluster_state: ClusterState, frameworks: Iterable[Framework]) -> Iterator[Check]:
    """Yield the checks, in the order of the steps of the migration."""
    yield from _operators(cluster_state)
    yield from _own_operator(cluster_state)
    yield from _webhooks(cluster_state)
    for framework in frameworks:
        yield _definition(cluster_state, framework)


def command_line(deployment: Document) -> tuple[str, ...]:
    """Return the flags of v1's operator in a Deployment, its two environment variables included as flags."""
    container = _container(deployment)
    flags = [*(container.get("command") or ())[1:], *(container.get("args") or ())]
    variables = {"KUBEFLOW_NAMESPACE": "--namespace", "CUSTOM_CLUSTER_DOMAIN": "--cluster-domain"}
    env = container.get("env") or ()
    return (*(f"{variables[item['name']]}={item['value']}" for item in env if _is_set(item, variables)), *flags)


def _is_set(item: Document, variables: dict[str, str]) -> bool:
    return item.get("name") in variables and bool(item.get("value"))


def _operators(cluster_state: ClusterState) -> Iterator[Check]:
    if not cluster_state.v1_deployments:
        yield Check(State.OK, "no Deployment of training-operator v1 found")
    for item in cluster_state.v1_deployments:
        if not _pods(item):
            yield Check(State.OK, f"training-operator v1 is stopped: {_where(item)} has no pods")
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
        stopped = next((item for item in cluster_state.deployments if _is_ours(item)), None)
        state = f"Trainshed is stopped: {_where(stopped)} has no pods" if stopped else "no operator is running"
        command = _scale(stopped, REPLICAS) if stopped else "kubectl apply -k manifests/"
        yield Check(State.ACTION_REQUIRED, f"{state}; {NO_OPERATOR}", command)


def _running(what: str, item: Document) -> str:
    pods = _pods(item)
    return f"{what} is running: {_where(item)}, {pods} {'pod' if pods == 1 else 'pods'}, {_image(item)}"


def _where(item: Document) -> str:
    return f"Deployment {item['metadata']['namespace']}/{item['metadata']['name']}"


def _scale(item: Document, replicas: int) -> str:
    return f"{_kubectl(item)} scale deployment/{item['metadata']['name']} --replicas={replicas}"


def _kubectl(item: Document) -> str:
    return f"kubectl --namespace {item['metadata']['namespace']}"


def _webhooks(cluster_state: ClusterState) -> Iterator[Check]:
    found = [item["metadata"]["name"] for item in cluster_state.webhooks if _checks_jobs(item)]
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
        message = f"{crd} serves {', '.join(served)}, not {framework.version}: see docs/mpi.md"
        return Check(State.ACTION_REQUIRED, message)
    if _has_our_status(found):
        return Check(State.OK, f"{crd} is Trainshed's")
    message = f"{crd} is v1's: it drops Trainshed's status fields and does not validate jobs"
    return Check(
        State.ERROR if cluster_state.trainshed_runs else State.ACTION_REQUIRED, message, f"kubectl replace -f {file}"
    )


def _is_v1(item: Document) -> bool:
    labels = item["metadata"].get("labels") or {}
    return labels.get(LABEL[0]) == LABEL[1] or f"/{V1}" in f"/{_image(item)}"


def _is_ours(item: Document) -> bool:
    """Return whether the image or the label is Trainshed's: v1's Deployment may run Trainshed's image."""
    labels = item["metadata"].get("labels") or {}
    return OWN_NAME in _image(item) or labels.get("app.kubernetes.io/name") == OWN_NAME


def _container(item: Document) -> Document:
    """Return the operator's container: sidecars may have been added to the pod."""
    containers: list[Document] = item["spec"]["template"]["spec"]["containers"]
    known = (found for found in containers if any(word in str(found.get("image")) for word in (V1, OWN_NAME)))
    return next(known, containers[0])


def _image(item: Document) -> str:
    return str(_container(item).get("image", ""))


def _pods(item: Document) -> int:
    return int((item.get("status") or {}).get("replicas") or 0)


def _checks_jobs(item: Document) -> bool:
    """Return whether the webhook is v1's; those of others, such as Kueue, may match jobs as well."""
    services = [(hook.get("clientConfig") or {}).get("service") or {} for hook in item.get("webhooks") or ()]
    return V1 in item["metadata"]["name"] or any(service.get("name") == V1 for service in services)


def _has_our_status(definition: Document) -> bool:
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") or {} for version in definition["spec"]["versions"]]
    statuses = [schema.get("properties", {}).get("status", {}).get("properties", {}) for schema in schemas]
    return any("attempts" in status for status in statuses)


#: Reconciles in a row that are computed: enough for a terminal condition and the clean-up that follows from it.
RECONCILES = 5
#: Names that a sentence lists; the rest are counted.
NAMES = 3


class Severity(IntEnum):
    """The severity of the changes to a job."""

    UNCHANGED = 0
    WILL_CHANGE = 1
    NEEDS_ATTENTION = 2


class JobForecast(msgspec.Struct, frozen=True):
    """The forecast for a job: the severity, and sentences about the changes; no sentence if nothing changes."""

    snapshot: Snapshot
    severity: Severity
    messages: tuple[str, ...]

    @property
    def state(self) -> str:
        """The state of the job, as `kubectl get` prints it in the column STATE."""
        return self.snapshot.status.current_state

    def __str__(self) -> str:
        job, pods = self.snapshot.job, len(self.snapshot.pods)
        name = f"{job.kind} {job.namespace}/{job.name} ({self.state}, {pods} {'pod' if pods == 1 else 'pods'})"
        return f"{name}: {'; '.join(self.messages) or 'no change'}"


def dry_run(snapshot: Snapshot) -> JobForecast:
    """Return the forecast for a job: a change needs attention if it harms the job, or pods that are still running."""
    job = snapshot.job
    if job.policy.managed_elsewhere:
        return JobForecast(
            snapshot, Severity.UNCHANGED, ("not reconciled: spec.runPolicy.managedBy names another controller",)
        )
    if job.problems:
        return JobForecast(
            snapshot, Severity.WILL_CHANGE if snapshot.status.over else Severity.NEEDS_ATTENTION, _invalid(snapshot)
        )
    plans = tuple(_plans(snapshot))
    forecast = JobForecast(snapshot, Severity.UNCHANGED, ())
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
    return JobForecast(snapshot, severity, tuple(messages))


def _restarts(before: Status, after: Status) -> bool:
    return after.retries.used > before.retries.used or not set(after.pending_replacement) <= set(
        before.pending_replacement
    )


def _deletions(snapshot: Snapshot, plans: tuple[Plan, ...]) -> JobForecast:
    """Return the deletions of pods, or of the job itself."""
    actions = [action for step in plans for action in step.actions]
    if any(isinstance(action, DeleteJob) for action in actions):
        return JobForecast(snapshot, Severity.WILL_CHANGE, ("job deleted: ttlSecondsAfterFinished has passed",))
    uids = {action.uid for action in actions if isinstance(action, DeletePod)}
    deleted = [pod for pod in snapshot.pods if pod.uid in uids]
    if not deleted:
        return JobForecast(snapshot, Severity.UNCHANGED, ())
    status = plans[-1].status
    wanted = not (status.over or status.true(ConditionType.SUSPENDED))
    severity = Severity.NEEDS_ATTENTION if wanted and any(_active(pod) for pod in deleted) else Severity.WILL_CHANGE
    return JobForecast(snapshot, severity, (f"{_listed([pod.name for pod in deleted])} deleted",))


def _active(pod: Pod) -> bool:
    return not pod.over and not pod.deleting


def _other_changes(snapshot: Snapshot, plans: tuple[Plan, ...]) -> JobForecast:
    """Return the objects that would be created, updated or deleted, except for deleted pods and the job."""
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for action in (action for step in plans for action in step.actions):
        if not isinstance(action, (DeletePod, DeleteJob)):
            groups[_kind_and_verb(action)].append(action.name)
    messages = [f"{_listed(names, kind)} {verb}" for (kind, verb), names in groups.items()]
    return JobForecast(snapshot, Severity.WILL_CHANGE if messages else Severity.UNCHANGED, tuple(messages))


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


def _listed(names: list[str], kind: str = "pod") -> str:
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names[:NAMES])}{more}"

"""Checks a cluster before and after a migration: operators, v1's webhook configuration, CRDs, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from trainshed.api.framework import Framework
from trainshed.api.job import Document

#: v1's objects are recognized by the label of its Deployment, and by the name of its Service and its webhook.
LABEL, V1 = ("control-plane", "kubeflow-training-operator"), "training-operator"
OURS, GROUP = "trainshed", "kubeflow.org"


class State(StrEnum):
    """The state of a part of the cluster."""

    OK = "ok"
    ACTION_REQUIRED = "action required"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of a part of the cluster, a sentence about it, and the command that corrects it, if there is one."""

    state: State
    words: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Premises:
    """The objects from which the progress of the migration is determined."""

    deployments: tuple[Document, ...]
    webhooks: tuple[Document, ...]
    definitions: tuple[Document, ...]

    @property
    def theirs(self) -> tuple[Document, ...]:
        """The Deployments of training-operator v1, in any namespace and with any image."""
        return tuple(item for item in self.deployments if _is_v1(item) and not _is_ours(item))

    @property
    def v1_runs(self) -> bool:
        """True if a Deployment of training-operator v1 has pods."""
        return any(map(_pods, self.theirs))

    @property
    def ours(self) -> tuple[Document, ...]:
        """The Deployments of Trainshed that have pods."""
        return tuple(item for item in self.deployments if _is_ours(item) and _pods(item))

    @property
    def we_run(self) -> bool:
        """True if a Deployment of Trainshed has pods."""
        return bool(self.ours)


def findings(premises: Premises, frameworks: Iterable[Framework]) -> Iterator[Finding]:
    """Yield the findings, in the order of the steps of the migration."""
    yield from _operators(premises)
    yield from _webhooks(premises)
    for framework in frameworks:
        yield _definition(premises, framework)


def command_line(deployment: Document) -> tuple[str, ...]:
    """Return the flags of v1's operator in a Deployment, its two environment variables included as flags."""
    container = _container(deployment)
    flags = [*(container.get("command") or ())[1:], *(container.get("args") or ())]
    variables = {"KUBEFLOW_NAMESPACE": "--namespace", "CUSTOM_CLUSTER_DOMAIN": "--cluster-domain"}
    env = container.get("env") or ()
    return (*(f"{variables[item['name']]}={item['value']}" for item in env if _is_set(item, variables)), *flags)


def _is_set(item: Document, variables: dict[str, str]) -> bool:
    return item.get("name") in variables and bool(item.get("value"))


def _operators(premises: Premises) -> Iterator[Finding]:
    if not premises.theirs:
        yield Finding(State.OK, "no Deployment of training-operator v1 found")
    for item in premises.theirs:
        if not _pods(item):
            yield Finding(State.OK, f"training-operator v1 is stopped: {_where(item)} has no pods")
        elif premises.we_run:
            words = f"{_running('training-operator v1', item)}; two operators undo each other's work, stop v1 now"
            yield Finding(State.ERROR, words, _stop(item))
        else:
            yield Finding(State.ACTION_REQUIRED, _running("training-operator v1", item), _stop(item))
    for item in premises.ours[:1]:
        yield Finding(State.OK, _running("Trainshed", item))
    for item in premises.ours[1:]:
        words = f"{_running('Trainshed', item)}; stop it unless the operators have different namespaces or kinds"
        yield Finding(State.ERROR, words, _stop(item))


def _running(what: str, item: Document) -> str:
    pods = _pods(item)
    return f"{what} is running: {_where(item)}, {pods} {'pod' if pods == 1 else 'pods'}, {_image(item)}"


def _where(item: Document) -> str:
    return f"Deployment {item['metadata']['namespace']}/{item['metadata']['name']}"


def _stop(item: Document) -> str:
    metadata = item["metadata"]
    return f"kubectl --namespace {metadata['namespace']} scale deployment/{metadata['name']} --replicas=0"


def _webhooks(premises: Premises) -> Iterator[Finding]:
    found = [item["metadata"]["name"] for item in premises.webhooks if _checks_jobs(item)]
    if not found:
        yield Finding(State.OK, "no webhook configuration of training-operator v1 found")
    for name in found:
        words = f"v1's webhook configuration {name} exists"
        if premises.v1_runs:
            words += ": as soon as v1 is stopped, every create and update of a job fails because the webhook is down"
        else:
            words += ", but v1 is not running: every create and update of a job fails because the webhook is down"
        state = State.ACTION_REQUIRED if premises.v1_runs else State.ERROR
        yield Finding(state, words, f"kubectl delete validatingwebhookconfiguration {name}")


def _definition(premises: Premises, framework: Framework) -> Finding:
    file = f"crds/{'' if framework.version == 'v1' else f'{framework.version}/'}{GROUP}_{framework.plural}.yaml"
    name = f"{framework.plural}.{GROUP}"
    crd = f"CRD {name}"
    found = next((item for item in premises.definitions if item["metadata"]["name"] == name), None)
    if found is None:
        return Finding(State.ACTION_REQUIRED, f"{crd} is not installed", f"kubectl create -f {file}")
    served = [version["name"] for version in found["spec"]["versions"] if version.get("served")]
    if framework.version not in served:
        words = f"{crd} serves {', '.join(served)}, not {framework.version}: see docs/mpi.md"
        return Finding(State.ACTION_REQUIRED, words)
    if _has_our_status(found):
        return Finding(State.OK, f"{crd} is Trainshed's")
    words = f"{crd} is v1's: it drops Trainshed's status fields and does not validate jobs"
    return Finding(State.ERROR if premises.we_run else State.ACTION_REQUIRED, words, f"kubectl replace -f {file}")


def _is_v1(item: Document) -> bool:
    labels = item["metadata"].get("labels") or {}
    return labels.get(LABEL[0]) == LABEL[1] or f"/{V1}" in f"/{_image(item)}"


def _is_ours(item: Document) -> bool:
    """Return whether the image or the label is Trainshed's: v1's Deployment may run Trainshed's image."""
    labels = item["metadata"].get("labels") or {}
    return OURS in _image(item) or labels.get("app.kubernetes.io/name") == OURS


def _container(item: Document) -> Document:
    """Return the operator's container: sidecars may have been added to the pod."""
    containers: list[Document] = item["spec"]["template"]["spec"]["containers"]
    known = (found for found in containers if any(word in str(found.get("image")) for word in (V1, OURS)))
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

"""What a cluster has of training-operator v1 and of us: the operators, v1's webhook, whose CRDs, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from trainshed.api.framework import Framework
from trainshed.api.job import Document

#: How v1's objects are known: the label of its Deployment, its Service's and its webhook configuration's name.
LABEL, V1 = ("control-plane", "kubeflow-training-operator"), "training-operator"
OURS, GROUP = "trainshed", "kubeflow.org"


class State(StrEnum):
    """How it is with a part of the cluster."""

    FINE = "ok"
    TO_DO = "to do"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """A part of the cluster: how it is, in words, and the command that mends it."""

    state: State
    words: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Premises:
    """The documents that tell how far the switch is."""

    deployments: tuple[Document, ...]
    webhooks: tuple[Document, ...]
    definitions: tuple[Document, ...]

    @property
    def theirs(self) -> tuple[Document, ...]:
        """The Deployments of v1, wherever they are and under which image."""
        return tuple(item for item in self.deployments if _is_v1(item) and not _is_ours(item))

    @property
    def v1_runs(self) -> bool:
        """Whether an operator of v1's has pods."""
        return any(map(_pods, self.theirs))

    @property
    def ours(self) -> tuple[Document, ...]:
        """Our Deployments that have pods."""
        return tuple(item for item in self.deployments if _is_ours(item) and _pods(item))

    @property
    def we_run(self) -> bool:
        """Whether an operator of ours has pods."""
        return bool(self.ours)


def findings(premises: Premises, frameworks: Iterable[Framework]) -> Iterator[Finding]:
    """All that is to be said, in the order in which it is to be done."""
    yield from _operators(premises)
    yield from _webhooks(premises)
    for framework in frameworks:
        yield _definition(premises, framework)


def command_line(deployment: Document) -> tuple[str, ...]:
    """The flags of v1's operator in a Deployment, and the two of its variables that we know as flags."""
    container = _container(deployment)
    flags = [*(container.get("command") or ())[1:], *(container.get("args") or ())]
    variables = {"KUBEFLOW_NAMESPACE": "--namespace", "CUSTOM_CLUSTER_DOMAIN": "--cluster-domain"}
    env = container.get("env") or ()
    return (*(f"{variables[item['name']]}={item['value']}" for item in env if _told(item, variables)), *flags)


def _told(item: Document, variables: dict[str, str]) -> bool:
    return item.get("name") in variables and bool(item.get("value"))


def _operators(premises: Premises) -> Iterator[Finding]:
    if not premises.theirs:
        yield Finding(State.FINE, "training-operator v1 has no Deployment here")
    for item in premises.theirs:
        if not _pods(item):
            yield Finding(State.FINE, f"training-operator v1 is stopped: {_where(item)} has no pods")
        elif premises.we_run:
            words = (
                f"{_running('training-operator v1', item)}; two operators at once undo each other's work: stop v1 now"
            )
            yield Finding(State.WRONG, words, _stop(item))
        else:
            yield Finding(State.TO_DO, _running("training-operator v1", item), _stop(item))
    for item in premises.ours[:1]:
        yield Finding(State.FINE, _running("Trainshed", item))
    for item in premises.ours[1:]:
        words = f"{_running('Trainshed', item)}, too; unless each has namespaces or kinds of its own, one must go"
        yield Finding(State.WRONG, words, _stop(item))


def _running(what: str, item: Document) -> str:
    pods = _pods(item)
    return f"{what} runs: {_where(item)}, {pods} {'pod' if pods == 1 else 'pods'}, {_image(item)}"


def _where(item: Document) -> str:
    return f"Deployment {item['metadata']['namespace']}/{item['metadata']['name']}"


def _stop(item: Document) -> str:
    metadata = item["metadata"]
    return f"kubectl --namespace {metadata['namespace']} scale deployment/{metadata['name']} --replicas=0"


def _webhooks(premises: Premises) -> Iterator[Finding]:
    found = [item["metadata"]["name"] for item in premises.webhooks if _checks_jobs(item)]
    if not found:
        yield Finding(State.FINE, "v1's webhook is not there")
    for name in found:
        words = f"v1's webhook configuration {name} is there"
        if premises.v1_runs:
            words += ": once v1 is stopped it refuses every job, new or changed, because nobody answers it"
        else:
            words += " and v1 is not: nobody answers it, and every job, new or changed, is refused"
        state = State.TO_DO if premises.v1_runs else State.WRONG
        yield Finding(state, words, f"kubectl delete validatingwebhookconfiguration {name}")


def _definition(premises: Premises, framework: Framework) -> Finding:
    crd = f"the CRD {framework.plural}.{GROUP}"
    file = f"crds/{'' if framework.version == 'v1' else f'{framework.version}/'}{GROUP}_{framework.plural}.yaml"
    name = f"{framework.plural}.{GROUP}"
    found = next((item for item in premises.definitions if item["metadata"]["name"] == name), None)
    if found is None:
        return Finding(State.TO_DO, f"{crd} is missing", f"kubectl create -f {file}")
    served = [version["name"] for version in found["spec"]["versions"] if version.get("served")]
    if framework.version not in served:
        words = f"{crd} serves {', '.join(served)} and not {framework.version}: docs/mpi.md says what can be done"
        return Finding(State.TO_DO, words)
    if _has_our_status(found):
        return Finding(State.FINE, f"{crd} is ours")
    words = f"{crd} is v1's: it drops what our status holds, and checks nothing"
    return Finding(State.WRONG if premises.we_run else State.TO_DO, words, f"kubectl replace -f {file}")


def _is_v1(item: Document) -> bool:
    labels = item["metadata"].get("labels") or {}
    return labels.get(LABEL[0]) == LABEL[1] or f"/{V1}" in f"/{_image(item)}"


def _is_ours(item: Document) -> bool:
    """By its image or by the label that our manifests give; an image of ours under v1's Deployment is ours too."""
    labels = item["metadata"].get("labels") or {}
    return OURS in _image(item) or labels.get("app.kubernetes.io/name") == OURS


def _container(item: Document) -> Document:
    """The operator's container: others may have been added to it."""
    containers: list[Document] = item["spec"]["template"]["spec"]["containers"]
    known = (found for found in containers if any(word in str(found.get("image")) for word in (V1, OURS)))
    return next(known, containers[0])


def _image(item: Document) -> str:
    return str(_container(item).get("image", ""))


def _pods(item: Document) -> int:
    return int((item.get("status") or {}).get("replicas") or 0)


def _checks_jobs(item: Document) -> bool:
    """Whether it sends jobs to v1's Service; others, such as Kueue's, look at jobs too."""
    services = [(hook.get("clientConfig") or {}).get("service") or {} for hook in item.get("webhooks") or ()]
    return V1 in item["metadata"]["name"] or any(service.get("name") == V1 for service in services)


def _has_our_status(definition: Document) -> bool:
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") or {} for version in definition["spec"]["versions"]]
    statuses = [schema.get("properties", {}).get("status", {}).get("properties", {}) for schema in schemas]
    return any("attempts" in status for status in statuses)

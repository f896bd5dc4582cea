"""The operators of a cluster, distinguished from Deployments that only look like one.

Any user can create a Deployment with the labels and the image of an operator. Only administrators create what is in no
namespace: the ClusterRoleBinding that gives an operator its rights, and the webhook configuration that names v1's
Service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trainshed.api.job import Document
from trainshed.views.diagnosis import VERSION_LABEL

#: v1's objects are recognized by the label of its Deployment, and by the names of its ClusterRole, its Service and its
#: webhook.
LABEL, V1_NAME = ("control-plane", "kubeflow-training-operator"), "training-operator"
OWN_LABEL, OWN_NAME = "app.kubernetes.io/name", "trainshed"
#: The operators, as sentences name them, and their labels.
V1, OWN = "training-operator v1", "Trainshed"
MARKS = {V1: dict([LABEL]), OWN: {OWN_LABEL: OWN_NAME}}


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The objects from which the progress of the migration is determined."""

    deployments: tuple[Document, ...]
    webhooks: tuple[Document, ...]
    definitions: tuple[Document, ...]
    bindings: tuple[Document, ...]

    @property
    def v1_deployments(self) -> tuple[Document, ...]:
        """The Deployments of training-operator v1, with any image."""
        return tuple(self._confirmed(V1))

    @property
    def v1_runs(self) -> bool:
        """True if a Deployment of training-operator v1 has pods."""
        return any(map(pod_count, self.v1_deployments))

    @property
    def v1_webhooks(self) -> tuple[Document, ...]:
        """The webhook configurations of v1; those of others, such as Kueue, may match jobs as well."""
        return tuple(item for item in self.webhooks if V1_NAME in item["metadata"]["name"] or _namespaces(item))

    @property
    def own_deployments(self) -> tuple[Document, ...]:
        """The Deployments of Trainshed, also those without pods."""
        return tuple(self._confirmed(OWN))

    @property
    def trainshed_deployments(self) -> tuple[Document, ...]:
        """The Deployments of Trainshed that have pods."""
        return tuple(filter(pod_count, self.own_deployments))

    @property
    def trainshed_runs(self) -> bool:
        """True if a Deployment of Trainshed has pods."""
        return bool(self.trainshed_deployments)

    def unconfirmed(self, what: str) -> list[Document]:
        """Return the Deployments that look like an operator, but may be those of any user."""
        confirmed = {where(item) for item in self._confirmed(what)}
        return [item for item in self.deployments if _looks_like(item) == what and where(item) not in confirmed]

    def kept(self) -> Callable[[Document], Document | None]:
        """Return a function that returns what is kept of a Deployment.

        That is nothing if it does not look like an operator, and only its name, version and number of replicas if any
        user may have created it: the rest may be large.
        """
        is_confirmed = self._rule()

        def found(item: Document) -> Document | None:
            what = _looks_like(item)
            if not what or is_confirmed(item, what):
                return item if what else None
            metadata, version = item["metadata"], (item["metadata"].get("labels") or {}).get(VERSION_LABEL, "")
            return {
                "metadata": {
                    **{name: metadata[name] for name in ("name", "namespace")},
                    "labels": MARKS[what] | {VERSION_LABEL: version},
                },
                "spec": {"replicas": item["spec"].get("replicas", 1), "template": {"spec": {"containers": [{}]}}},
                "status": {"readyReplicas": (item.get("status") or {}).get("readyReplicas", 0)},
            }

        return found

    def _confirmed(self, what: str) -> Iterator[Document]:
        is_confirmed = self._rule()
        return (item for item in self.deployments if _looks_like(item) == what and is_confirmed(item, what))

    def _rule(self) -> Callable[[Document, str], bool]:
        """Return whether an administrator has named the service account, or the namespace, of an operator's Deployment.

        The namespace says less: other users may have rights in it. It counts only where v1 has no ClusterRoleBinding.
        """
        accounts = {account for binding in self.bindings for account in _accounts(binding)}
        by_namespace = not any(map(_is_of_v1, self.bindings))
        namespaces = {name for item in self.webhooks for name in _namespaces(item)} if by_namespace else set()

        def is_confirmed(item: Document, what: str) -> bool:
            account = item["spec"]["template"]["spec"].get("serviceAccountName") or "default"
            namespace = item["metadata"]["namespace"]
            return (namespace, account) in accounts or (what == V1 and namespace in namespaces)

        return is_confirmed


def command_line(deployment: Document) -> tuple[str, ...]:
    """Return the flags of v1's operator in a Deployment, its two environment variables included as flags."""
    container = _container(deployment)
    flags = [*(container.get("command") or ())[1:], *(container.get("args") or ())]
    variables = {"KUBEFLOW_NAMESPACE": "--namespace", "CUSTOM_CLUSTER_DOMAIN": "--cluster-domain"}
    env = container.get("env") or ()
    return (*(f"{variables[item['name']]}={item['value']}" for item in env if _is_set(item, variables)), *flags)


def _is_set(item: Document, variables: dict[str, str]) -> bool:
    return item.get("name") in variables and bool(item.get("value"))


def where(item: Document) -> str:
    """Return the namespace and the name of an object."""
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def image(item: Document) -> str:
    """Return the image of the operator in a Deployment."""
    return str(_container(item).get("image", ""))


def pod_count(item: Document) -> int:
    """Return how many pods a Deployment has."""
    return int((item.get("status") or {}).get("replicas") or 0)


def _looks_like(item: Document) -> str:
    """Return the operator whose label or image a Deployment has: v1's Deployment may run Trainshed's image."""
    labels = item["metadata"].get("labels") or {}
    if OWN_NAME in image(item) or labels.get(OWN_LABEL) == OWN_NAME:
        return OWN
    return V1 if labels.get(LABEL[0]) == LABEL[1] or f"/{V1_NAME}" in f"/{image(item)}" else ""


def _container(item: Document) -> Document:
    """Return the operator's container: sidecars may have been added to the pod."""
    containers: list[Document] = item["spec"]["template"]["spec"]["containers"]
    known = (found for found in containers if any(word in str(found.get("image")) for word in (V1_NAME, OWN_NAME)))
    return next(known, containers[0])


def _accounts(binding: Document) -> set[tuple[str, str]]:
    """Return the service accounts that a ClusterRoleBinding of an operator names."""
    if not (_is_of_v1(binding) or _is_of_own(binding)):
        return set()
    subjects = [item for item in binding.get("subjects") or () if item.get("kind") == "ServiceAccount"]
    return {(item.get("namespace", ""), item.get("name", "")) for item in subjects}


def _is_of_v1(binding: Document) -> bool:
    return _has_name(binding["roleRef"]["name"], V1_NAME)


def _is_of_own(binding: Document) -> bool:
    labels = binding["metadata"].get("labels") or {}
    return _has_name(binding["roleRef"]["name"], OWN_NAME) or labels.get(OWN_LABEL) == OWN_NAME


def _has_name(name: str, known: str) -> bool:
    """Return whether a name is the known one, also behind the name of a release."""
    return name == known or name.endswith(f"-{known}")


def _namespaces(webhook: Document) -> set[str]:
    """Return the namespaces of v1's Service that a webhook configuration names."""
    services = [(hook.get("clientConfig") or {}).get("service") or {} for hook in webhook.get("webhooks") or ()]
    return {found.get("namespace", "") for found in services if _has_name(found.get("name", ""), V1_NAME)}

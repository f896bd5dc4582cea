"""The objects of a rendering, and what linters look at in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Document = dict[str, Any]
#: What the chart is made of. Linters have rules for more kinds of objects: of those there are none, and may not be.
KINDS = frozenset(
    (
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"),
        *("ConfigMap", "Deployment", "FlowSchema", "NetworkPolicy", "PodDisruptionBudget", "Service"),
        *("PodMonitor", "PrometheusRule", "ServiceMonitor"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    )
)


@dataclass(frozen=True)
class Rendered:
    """All objects of one set of values."""

    documents: tuple[Document, ...]

    def of(self, *kinds: str) -> tuple[Document, ...]:
        """The objects of these kinds."""
        return tuple(document for document in self.documents if document["kind"] in kinds)

    @cached_property
    def deployment(self) -> Document:
        """The one Deployment."""
        (found,) = self.of("Deployment")
        return found["spec"]

    @cached_property
    def labels(self) -> dict[str, str]:
        """The labels of its pods."""
        return self.deployment["template"]["metadata"]["labels"]

    @cached_property
    def pod(self) -> Document:
        """The spec of its pods."""
        return self.deployment["template"]["spec"]

    @cached_property
    def containers(self) -> tuple[Document, ...]:
        """All containers of its pods."""
        return (*self.pod["containers"], *self.pod.get("initContainers", ()))

    @cached_property
    def ports(self) -> dict[str, int]:
        """The ports of its containers by name."""
        listed = (port for container in self.containers for port in container.get("ports", ()))
        return {port["name"]: port["containerPort"] for port in listed}

    @cached_property
    def variables(self) -> list[Document]:
        """The environment of its containers."""
        return [variable for container in self.containers for variable in container.get("env", ())]

    @cached_property
    def rules(self) -> tuple[Document, ...]:
        """All rules of all roles of the operator."""
        roles = (role for role in self.of("Role", "ClusterRole") if not _for_people(role))
        return tuple(rule for role in roles for rule in role["rules"])

    def security(self, container: Document, field: str) -> object:
        """What a container's security context says, or the pod's."""
        own = container.get("securityContext", {})
        return own.get(field, self.pod.get("securityContext", {}).get(field))

    def selects(self, selector: Document) -> bool:
        """Whether a selector by labels has the pods of the Deployment."""
        wanted = selector.get("matchLabels", selector)
        return bool(wanted) and wanted.items() <= self.labels.items()

    def grants(self, resource: str, *verbs: str) -> bool:
        """Whether the operator may do any of this."""
        return any(resource in rule["resources"] and set(verbs) & set(rule["verbs"]) for rule in self.rules)

    def probes(self) -> Iterator[tuple[str, Document]]:
        """The probes of its containers by their names."""
        for container in self.containers:
            for name in ("livenessProbe", "readinessProbe", "startupProbe"):
                if name in container:
                    yield name, container[name]


def _for_people(role: Document) -> bool:
    name = role["metadata"]["name"]
    return "-jobs-" in name or name.startswith("kubeflow-training-")

"""People with few rights, on an API server with RBAC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from support import UserClient
from testbed.control_plane import ControlPlane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
API_GROUP = "rbac.authorization.k8s.io"
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class May:
    """A right: these verbs on a resource of an API group, if need be on the object of this name alone."""

    verbs: tuple[str, ...]
    resource: str
    group: str = ""
    name: str = ""

    def rule(self) -> Document:
        """Return it as a rule of a role."""
        named = {"resourceNames": [self.name]} if self.name else {}
        return {"apiGroups": [self.group], "resources": [self.resource], "verbs": list(self.verbs), **named}


def person(server: ControlPlane, namespace: str, name: str, *rights: May, role: str = "") -> UserClient:
    """Return a user who has these rights in a namespace, and those of a ClusterRole."""
    admin, roles = UserClient(server.kubeconfig, namespace), f"{RBAC}/namespaces/{namespace}"
    if rights:
        rules = [right.rule() for right in rights]
        admin.call("POST", f"{roles}/roles", {"metadata": {"name": name}, "rules": rules})
        admin.call("POST", f"{roles}/rolebindings", _binding(name, "Role", name))
    if role:
        admin.call("POST", f"{roles}/rolebindings", _binding(name, "ClusterRole", role))
    return UserClient(server.kubeconfig_for(name), namespace)


def _binding(user: str, kind: str, role: str) -> Document:
    reference = {"apiGroup": API_GROUP, "kind": kind, "name": role}
    subjects = [{"apiGroup": API_GROUP, "kind": "User", "name": user}]
    return {"metadata": {"name": f"{user}-{kind.lower()}"}, "roleRef": reference, "subjects": subjects}

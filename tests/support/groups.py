"""The PodGroups of a gang scheduler that a test simulates: it admits groups and places their pods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from testbed.control_plane import ControlPlane

from .user_client import MERGE, UserClient, eventually

HERE = Path(__file__).parent / "podgroups"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#: The phases in which Volcano has admitted a group.
INSIDE = ("Inqueue", "Running")


@contextmanager
def defined_groups(plane: ControlPlane) -> Iterator[None]:
    """The API server knows both kinds of PodGroup meanwhile."""
    user = UserClient(plane.kubeconfig, "default")
    definitions = [yaml.safe_load(path.read_text()) for path in sorted(HERE.glob("*.yaml"))]
    found = [Groups(user, f"{one['spec']['group']}/{one['spec']['versions'][0]['name']}") for one in definitions]
    for definition, groups in zip(definitions, found, strict=True):
        user.call("POST", DEFINITIONS, definition)
        eventually(lambda groups=groups: user.serves(groups.path))
    yield
    for definition, groups in zip(definitions, found, strict=True):
        user.call("DELETE", f"{DEFINITIONS}/{definition['metadata']['name']}")
        eventually(lambda groups=groups: not user.serves(groups.path), 30)


class Groups:
    """The PodGroups of one API in a user's namespace, at `path`. `place` is a script for a kubelet."""

    def __init__(self, user: UserClient, api: str) -> None:
        self.user = user
        self.path = f"/apis/{api}/namespaces/{user.namespace}/podgroups"
        self._volcano = "volcano" in api

    def get(self, name: str) -> dict | None:
        return self.user.find(f"{self.path}/{name}")

    def spec(self, name: str) -> dict:
        return eventually(lambda: self.get(name))["spec"]

    def set_phase(self, name: str, phase: str, *conditions: dict) -> None:
        eventually(lambda: self.get(name))
        path = f"{self.path}/{name}" if self._volcano else f"{self.path}/{name}/status"
        self.user.call("PATCH", path, {"status": {"phase": phase, "conditions": list(conditions)}}, MERGE)

    def turn_down(self, name: str) -> None:
        """Refuse a group as Volcano does without room: a condition has the reason."""
        why = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "no room for 10"}
        self.set_phase(name, "Pending", why)

    def place(self, pod: str) -> str:
        """Run a pod once its group is admitted and has its minimum of pods; a pod without a group stays pending."""
        metadata = (self.user.pod(pod) or {}).get("metadata", {})
        name = self._group(metadata)
        group = self.get(name) if name else None
        if group is None or (self._volcano and group.get("status", {}).get("phase") not in INSIDE):
            return ""
        members = [other for other in self.user.pods() if self._group(other["metadata"]) == name]
        return "Running" if len(members) >= group["spec"]["minMember"] else ""

    def _group(self, metadata: dict) -> str:
        if self._volcano:
            return metadata.get("annotations", {}).get("scheduling.k8s.io/group-name", "")
        return metadata.get("labels", {}).get("scheduling.x-k8s.io/pod-group", "")

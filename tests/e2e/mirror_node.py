"""Lets a node of one cluster run the pods of another cluster that has no nodes: each pod has a mirror there."""

from __future__ import annotations

import threading
from typing import Self

from support import Refused, UserClient

#: The fields of a pod's status that are copied back.
STATUS_FIELDS = ("phase", "reason", "message", "conditions", "initContainerStatuses", "containerStatuses")
#: The objects that pods read, and the fields of them that matter.
READ = {"configmaps": ("data",), "secrets": ("type", "data"), "services": ("spec",)}


class Double:
    """Everything in the namespace of `origin` is there in that of `kubelet`, too, by the same name, until the end."""

    def __init__(self, origin: UserClient, kubelet: UserClient) -> None:
        self._origin, self._stage = origin, kubelet
        self._statuses: dict[str, dict] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _play(self) -> None:
        while not self._over.wait(0.3):
            try:
                for plural, fields in READ.items():
                    self._copy(plural, fields)
                self._copy("pods", ("spec",))
                self._copy_statuses()
            except Refused as refused:
                if refused.code not in (404, 409):  # it has gone, or has come, meanwhile
                    raise

    def _copy(self, plural: str, fields: tuple[str, ...]) -> None:
        there = {item["metadata"]["name"] for item in self._stage.core(plural)}
        for item in self._origin.core(plural):
            meta, content = item["metadata"], {field: item[field] for field in fields if field in item}
            if meta["name"] not in there:
                named = {"name": meta["name"], "labels": meta.get("labels", {})}
                self._stage.make(plural, {"metadata": named, **_portable(content)})

    def _copy_statuses(self) -> None:
        lives = {pod["metadata"]["name"]: pod["status"] for pod in self._stage.pods()}
        alive = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self._origin.pods()}
        for name, status in lives.items():
            copied = {field: status[field] for field in STATUS_FIELDS if field in status}
            if name not in alive:
                self._stage.delete("pods", name, grace=1)
            elif self._statuses.get(alive[name]) != copied:
                self._origin.set_pod_status(name, copied)
                self._statuses[alive[name]] = copied


def _portable(content: dict) -> dict:
    """A Service's addresses are another cluster's; that it has none is meant."""
    spec = content.get("spec", {})
    left = {
        field: value for field, value in spec.items() if field not in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
    }
    return content | ({"spec": left} if spec else {})

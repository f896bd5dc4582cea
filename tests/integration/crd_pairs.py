"""An API server with both definitions of each kind, theirs and own, each in a group of its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crd_differences import pairs
from support.user_client import Refused, UserClient, eventually

SIDES = ("theirs", "own")
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class CrdPairs:
    """Sends a job to both definitions of its kind; nothing is stored."""

    def __init__(self, kubeconfig: Path) -> None:
        self._user = UserClient(kubeconfig, "default")
        self._plurals: dict[tuple[str, str], str] = {}
        for _, theirs, own in pairs():
            for side, crd in zip(SIDES, (theirs, own), strict=True):
                self._install(side, crd)
        paths = [self._path(side, version, plural) for (version, _), plural in self._plurals.items() for side in SIDES]
        eventually(lambda: all(map(self._user.serves, paths)), 60)

    def stored(self, side: str, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return what would be stored of a job; raises `Refused`."""
        version = job["apiVersion"].partition("/")[2]
        path = self._path(side, job["apiVersion"], self._plurals[job["apiVersion"], job["kind"]])
        return self._user.call(
            "POST", f"{path}?dryRun=All", {**job, "apiVersion": f"{_group(side, version)}/{version}"}
        )

    def accepts(self, side: str, job: Mapping[str, Any]) -> bool:
        """Return whether a job would be stored."""
        try:
            self.stored(side, job)
        except Refused:
            return False
        return True

    def _install(self, side: str, crd: Mapping[str, Any]) -> None:
        moved = copy.deepcopy(dict(crd))
        names, version = moved["spec"]["names"], moved["spec"]["versions"][0]["name"]
        moved["spec"]["group"] = _group(side, version)
        moved["metadata"] = {"name": f"{names['plural']}.{_group(side, version)}"}
        moved.pop("status", None)
        self._user.call("POST", PATH, moved)
        self._plurals[f"kubeflow.org/{version}", names["kind"]] = names["plural"]

    def _path(self, side: str, api_version: str, plural: str) -> str:
        version = api_version.partition("/")[2]
        return f"/apis/{_group(side, version)}/{version}/namespaces/default/{plural}"


def _group(side: str, version: str) -> str:
    return f"{version}.{side}.test"

"""The store of a control plane, by etcd's own interface (its JSON gateway), and its folder on the disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import urllib3

from testbed.control_plane import ControlPlane


class Etcd:
    """An etcd server, with the operations of an administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._http = urllib3.PoolManager(retries=False, timeout=10)

    @property
    def size(self) -> int:
        """Bytes that it takes on the disk."""
        return int(self._call("maintenance/status")["dbSize"])

    def compact(self) -> None:
        """Forget all but the present."""
        self._call(
            "kv/compaction", {"revision": self._call("maintenance/status")["header"]["revision"], "physical": True}
        )

    def make_room(self) -> None:
        """Free space in a full store from which something was deleted: compact, defragment, and disarm the alarm."""
        self.compact()
        self._call("maintenance/defragment")
        for alarm in self._call("maintenance/alarm", {"action": "GET"}).get("alarms", []):
            self._call("maintenance/alarm", {"action": "DEACTIVATE", **alarm})

    def restart(self, *flags: str) -> None:
        """End it and start it again with these flags."""
        self._plane.stop_etcd()
        self._plane.etcd_flags = flags
        self._plane.start_etcd()

    def copy(self, folder: Path) -> None:
        """Copy all of it, as it is; it is away meanwhile."""
        self._plane.stop_etcd()
        shutil.copytree(self._plane.folder / "etcd", folder)
        self._plane.start_etcd()

    def put_back(self, folder: Path) -> None:
        """Make everything as it was when it was copied."""
        self._plane.stop()
        shutil.rmtree(self._plane.folder / "etcd")
        shutil.copytree(folder, self._plane.folder / "etcd")
        self._plane.start()

    def _call(self, what: str, body: dict | None = None) -> dict:
        answer = self._http.request("POST", f"{self._plane.etcd_url}/v3/{what}", body=json.dumps(body or {}))
        found = json.loads(answer.data)
        assert answer.status == 200, found
        return found

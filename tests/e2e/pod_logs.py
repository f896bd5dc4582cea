"""The logs of all pods of a namespace, read while they run, so that those of deleted pods are included."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 5.0  # seconds in which a reader gets to the end of a pod's log once the pod is over


class Journal:
    """One file for each pod's name, one reader for each container that has run under it."""

    def __init__(self, kubectl: Callable[..., str], folder: Path) -> None:
        self.kubectl = kubectl
        self.folder = folder
        self.readers: dict[str, subprocess.Popen[str]] = {}

    def read(self) -> None:
        """Begin to read the containers that are new; to be asked twice a second or so."""
        for pod in json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]:
            for status in pod["status"].get("containerStatuses", ()):
                container = status.get("containerID", "")
                if container and container not in self.readers and "waiting" not in status["state"]:
                    self.readers[container] = self._reader(pod["metadata"]["name"])

    def of(self, pod: str) -> str:
        """Return the output of all pods of this name."""
        path = self._path(pod)
        return path.read_text() if path.exists() else ""

    def finish(self) -> None:
        """Read the rest, then stop the readers, also those of running pods."""
        self.read()
        end = time.monotonic() + PATIENCE
        while any(reader.poll() is None for reader in self.readers.values()) and time.monotonic() < end:
            time.sleep(0.2)
        for reader in self.readers.values():
            reader.kill()
            reader.wait()

    def _path(self, pod: str) -> Path:
        return self.folder / f"{pod}.log"

    def _reader(self, pod: str) -> subprocess.Popen[str]:
        with self._path(pod).open("a") as log:
            return self.kubectl.follow("logs", "-f", pod, to=log)  # type: ignore[attr-defined]

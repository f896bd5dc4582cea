"""A kubelet that runs the containers of pods as processes of this machine, in one process namespace for each pod.

So a container finds the processes of the others, as with `shareProcessNamespace`. Each pod has a /var/log of its own;
all else is the machine's. A deleted pod is killed at once.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from support.fake_kubelet import NODE
from support.user_client import Refused, UserClient

#: What keeps the namespaces of a pod; with a user namespace no rights are needed.
UNSHARE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")
PAUSE = "mount -t tmpfs none /var/log && touch /var/log/.ready && exec sleep infinity"
ENTER = ("--user", "--preserve-credentials", "--pid", "--mount")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass
class _Run:
    """A pod that runs: the process that keeps its namespaces, and those of its containers."""

    keeper: subprocess.Popen
    containers: dict[str, subprocess.Popen] = field(default_factory=dict)
    started: str = field(default_factory=_now)
    ended: dict[str, str] = field(default_factory=dict)

    def status(self) -> dict:
        """Return the status of the pod."""
        found, codes = [], {name: process.poll() for name, process in self.containers.items()}
        for name, code in sorted(codes.items()):
            if code is not None:
                self.ended.setdefault(name, _now())
            ended = {"exitCode": code, "startedAt": self.started, "finishedAt": self.ended.get(name)}
            state = {"running": {"startedAt": self.started}} if code is None else {"terminated": ended}
            common = {"name": name, "ready": code is None, "restartCount": 0, "image": "", "imageID": ""}
            found.append(common | {"state": state})
        phase = "Running" if None in codes.values() else "Failed" if any(codes.values()) else "Succeeded"
        ready = {"type": "Ready", "status": str(not self.ended)}
        return {"phase": phase, "conditions": [ready], "containerStatuses": found}

    def kill(self) -> None:
        """Kill all its processes."""
        self.keeper.kill()
        for process in (*self.containers.values(), self.keeper):
            process.wait(10)


class ProcessPods:
    """Runs the pods of one namespace; the output of each container is in `folder`."""

    def __init__(self, user: UserClient, folder: Path) -> None:
        self._user, self._folder = user, folder
        self._runs: dict[str, _Run] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(20)
        for run in self._runs.values():
            run.kill()

    def output(self) -> Iterator[str]:
        """Yield the output of each container, for a failed test."""
        yield from (f"{path.name}:\n{path.read_text()}" for path in sorted(self._folder.glob("*.log")))

    def _loop(self) -> None:
        while not self._over.wait(0.1):
            for pod in self._user.pods():
                with suppress(Refused):  # gone meanwhile
                    self._act(pod)

    def _act(self, pod: dict) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            if uid in self._runs:
                self._runs.pop(uid).kill()
            self._user.delete("pods", name, grace=0)
            return
        if uid not in self._runs:
            self._user.bind(name, NODE)
            self._runs[uid] = self._started(pod)
        status = self._runs[uid].status()
        if pod["status"].get("containerStatuses") != status["containerStatuses"]:
            self._user.set_pod_status(name, status)

    def _started(self, pod: dict) -> _Run:
        run = _Run(subprocess.Popen([*UNSHARE, "sh", "-c", PAUSE]))
        pause = _first_process(run.keeper.pid)
        for container in pod["spec"]["containers"]:
            words = [*container.get("command", ()), *container.get("args", ())]
            command = ["nsenter", "--target", str(pause), *ENTER, *(word.replace("$$", "$") for word in words)]
            log = (self._folder / f"{pod['metadata']['name']}.{container['name']}.log").open("wb")
            run.containers[container["name"]] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            log.close()
        return run


def _first_process(keeper: int) -> int:
    """Return the process with the number 1 in the namespace, once its /var/log is there."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        if children and Path(f"/proc/{children[0]}/root/var/log/.ready").exists():
            return int(children[0])
        time.sleep(0.02)
    raise AssertionError("the namespaces of a pod were not made within 30 s")

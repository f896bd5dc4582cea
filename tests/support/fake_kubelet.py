"""The stage on which pods' lives are played: a thread that does what scheduler and kubelet would, as it is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from .user_client import Hand, Refused

NODE = "stage-0"
#: What becomes of a pod that has just been made, by its name: "Running" is the usual; "" leaves it pending.
Script = Callable[[str], str]


def running(_name: str) -> str:
    """Every pod runs."""
    return "Running"


class Stage:
    """Plays all pods of one namespace: those that are made get a node and run, those that are deleted go."""

    def __init__(self, hand: Hand, script: Script = running, pause: float = 0.05) -> None:
        self.hand = hand
        self.script = script
        self.created: list[str] = []
        self._pause = pause
        self._known: dict[str, str] = {}
        self._containers: dict[str, str] = {}
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(8)
        self._thread = threading.Thread(target=self._play, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10)
        self._pool.shutdown()

    def run(self, name: str, *, ready: bool = True) -> None:
        """A pod starts to run."""
        container = {"name": self._container(name), "ready": ready, "restartCount": 0, "image": "", "imageID": ""}
        started = {"state": {"running": {"startedAt": _now()}}}
        conditions = [{"type": "Ready", "status": str(ready)}]
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": [container | started]}
        self.hand.set_pod_status(name, status)

    def end(self, name: str, code: int, reason: str = "", message: str = "") -> None:
        """A pod's container ends with this exit code, and the pod with it."""
        ended = {"exitCode": code, "finishedAt": _now(), "startedAt": _now(), "message": message}
        ended["reason"] = reason or ("Error" if code else "Completed")
        container = {"name": self._container(name), "ready": False, "restartCount": 0, "image": "", "imageID": ""}
        statuses = [container | {"state": {"terminated": ended}}]
        phase = "Failed" if code else "Succeeded"
        conditions = [{"type": "Ready", "status": "False"}]
        self.hand.set_pod_status(name, {"phase": phase, "conditions": conditions, "containerStatuses": statuses})

    def restart_in_place(self, name: str, times: int) -> None:
        """The kubelet has restarted a pod's container so often."""
        container = {"name": self._container(name), "ready": True, "restartCount": times, "image": "", "imageID": ""}
        statuses = [container | {"state": {"running": {"startedAt": _now()}}}]
        self.hand.set_pod_status(name, {"phase": "Running", "containerStatuses": statuses})

    def evict(self, name: str) -> None:
        """The node's kubelet throws a pod off."""
        self.hand.set_pod_status(
            name, {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}
        )

    def _container(self, name: str) -> str:
        if name not in self._containers:
            pod = self.hand.pod(name)
            self._containers[name] = pod["spec"]["containers"][0]["name"] if pod else ""
        return self._containers[name]

    def _play(self) -> None:
        while not self._over.wait(self._pause):
            try:
                # As many at a time as a few nodes would: one after another they would take longer than a real cluster.
                list(self._pool.map(self._act, self.hand.pods()))
            except (Refused, OSError):
                continue  # the pod is gone already, or the API server is: look again
            except Exception as error:
                if not type(error).__module__.startswith("urllib3"):
                    raise

    def _act(self, pod: dict) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if uid not in self._known:
            self._known[uid] = name
            self._containers[name] = pod["spec"]["containers"][0]["name"]
            self.created.append(name)
        if "deletionTimestamp" in pod["metadata"]:
            self.hand.delete("pods", name, grace=0)
        elif pod["status"].get("phase") == "Pending":
            self._start(pod, name)

    def _start(self, pod: dict, name: str) -> None:
        what = self.script(name)
        if not what:
            return
        if "nodeName" not in pod["spec"]:
            self.hand.bind(name, NODE)
        if what == "Running":
            self.run(name)
        else:
            self.end(name, int(what))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

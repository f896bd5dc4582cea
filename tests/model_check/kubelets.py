"""What kubelets may do to the pods of a small world while nobody looks.

Nobody can tell when a kubelet did something, but only whether it had done it when he looked: so nothing is said of
kubelets until somebody is about to, and then all is tried that they may have done to whom he looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from simulation import lives
from simulation.kubelets import path
from simulation.server import Server
from support.audit.change import KUBELET

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens to a pod."""

    pod: str
    what: str

    def __str__(self) -> str:
        return f"{self.pod} {self.what}"


#: What happens to several pods, in this order.
Course = tuple[Step, ...]
RUNS, SUCCEEDS, FAILS, GONE = "runs", "succeeds", "fails", "is gone"


class Kubelets:
    """Those of a world in which pods fail with `code`, and those whose name ends in `decides` may succeed."""

    def __init__(self, server: Server, now: Callable[[], float], decides: str, code: int) -> None:
        self._server = server
        self._now = now
        self._decides = decides
        self._code = code

    def courses(self, name: str, failures: int) -> Iterator[Course]:
        """All that may have happened to the pod of this name, or to all if it is empty, with so many failures at most.

        That nothing has comes first.
        """
        pods = [pod for pod in self._server.objects("pods") if name in ("", pod["metadata"]["name"])]
        for parts in product(*map(self._own, pods)):
            course = tuple(step for part in parts for step in part)
            if sum(step.what == FAILS for step in course) <= failures:
                yield course

    def run(self, course: Course) -> None:
        """Let it happen."""
        for step in course:
            pod = next(pod for pod in self._server.objects("pods") if pod["metadata"]["name"] == step.pod)
            if step.what == GONE:
                self._server.request(KUBELET, "DELETE", path(pod), body={"gracePeriodSeconds": 0})
            elif step.what == RUNS:
                self._server.request(KUBELET, "POST", f"{path(pod)}/binding", body={"target": {"name": "node-a"}})
                self._tell(pod, lives.running(pod, self._now()))
            else:
                self._tell(pod, lives.ended(pod, self._code if step.what == FAILS else 0, self._now()))

    def _own(self, pod: Document) -> Iterator[Course]:
        """What may happen to one pod."""
        name, phase = pod["metadata"]["name"], pod["status"].get("phase", "Pending")
        ends = [FAILS, SUCCEEDS] if name.endswith(self._decides) else [FAILS]
        yield ()
        if "deletionTimestamp" in pod["metadata"]:
            yield (Step(name, GONE),)
        elif phase == "Pending":
            yield (Step(name, RUNS),)
            yield from ((Step(name, RUNS), Step(name, end)) for end in ends)
        elif phase == "Running":
            yield from ((Step(name, end),) for end in ends)

    def _tell(self, pod: Document, status: Document) -> None:
        self._server.request(KUBELET, "PATCH", f"{path(pod)}/status", body={"status": status})

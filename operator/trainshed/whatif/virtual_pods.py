"""The pods of a virtual run and the nodes that they are on, as the planner sees them."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from datetime import datetime
from typing import cast

from msgspec.structs import replace

from trainshed.api.job import ReplicaGroup
from trainshed.api.objects import Container, Phase, Pod, TerminatedState

from .assumptions import Assumptions
from .subject import VirtualJob

#: Why pods of a node that is lost are deleted, as Kubernetes says.
NODE_LOST = "DeletionByTaintManager"
#: Seconds for which a kubelet waits before it starts a container again that has exited (its crash-loop back-off): none
#: after the first exit, then this, doubled up to the most; none again if the last start is that long ago.
FIRST_WAIT, LONGEST_WAIT, FORGOTTEN_AFTER = 10.0, 300.0, 600.0


class Slot:
    """The place of a node: the name of the one that is there, and from when on it is."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.generation = 0
        self.ready = 0.0

    @property
    def node(self) -> str:
        """The name of the node."""
        return f"node-{self.number}" + (f"-{self.generation}" if self.generation else "")


class VirtualPods:
    """The pods by name. What waits for a node, or for its training to begin, stands in the order of its time."""

    def __init__(self, subject: VirtualJob, assumed: Assumptions) -> None:
        self._subject = subject
        self._assumed = assumed
        self._pods: dict[str, Pod] = {}
        self._moves: list[tuple[float, int, str, str, float]] = []
        self._count = 0
        self.slots = [Slot(number) for number in range(assumed.nodes)]
        self._spares = [0.0] * assumed.spare_nodes
        size = max(1, len(subject.replicas))
        self._places = {name: number * assumed.nodes // size for number, name in enumerate(subject.replicas)}
        self.leaving: list[str] = []
        self._waits: dict[str, tuple[float, float]] = {}

    @property
    def all(self) -> tuple[Pod, ...]:
        """All pods."""
        return tuple(self._pods.values())

    @property
    def held(self) -> list[float]:
        """How many of each resource the pods hold that are on a node and have not ended."""
        counts = Counter(
            self._subject.replicas[pod.name].role for pod in self._pods.values() if pod.node and not pod.over
        )
        found = [0.0] * (len(self._subject.resources) + 1)
        for role, count in counts.items():
            for place, amount in enumerate(self._subject.held[role]):
                found[place] += count * amount
        return found

    @property
    def trainers(self) -> dict[str, int]:
        """How many replicas of each role run their program."""
        running = (pod for pod in self._pods.values() if _runs(pod))
        return Counter(self._subject.replicas[pod.name].role for pod in running)

    @property
    def next_move(self) -> float:
        """When the next pod gets its node or begins to train."""
        return self._moves[0][0] if self._moves else math.inf

    def on(self, slot: int) -> list[str]:
        """Return the pods on a node."""
        return [name for name in self._pods if self._places[name] == slot and self._pods[name].node]

    def running_on(self, slot: int) -> list[str]:
        """Return those of them whose program runs."""
        return [name for name in self.on(slot) if _runs(self._pods[name])]

    def create(self, name: str, attempt: int, now: tuple[float, datetime], wait: float) -> None:
        """Create a pod, which trains after this time, and later if its node is not there yet."""
        replica, job, framework = self._subject.replicas[name], self._subject.job, self._subject.framework
        group = self._group(name)
        slot, self._count = self.slots[self._places[name]], self._count + 1
        if framework.hooks.start_after(job, replica.role):
            wait = 0  # the others, for which it has waited, are ready
        is_there = slot.ready <= now[0]
        self._pods[name] = Pod(
            name=name,
            uid=str(self._count),
            version="1",
            owner=job.uid,
            namespace=job.namespace,
            job=job.name,
            role=replica.role.lower(),
            index=replica.index,
            attempt=attempt,
            phase=Phase.PENDING,
            node=slot.node if is_there else "",
            containers=(Container(group.container, waiting=True, reason="ContainerCreating"),) if is_there else (),
            created=now[1],
            scheduled=now[1] if is_there else None,
            template_hash=group.template_hash,
            service=job.name if framework.objects.services else "",
        )
        self._await(max(slot.ready, now[0]) + (wait if is_there else 0), self._pods[name], 0 if is_there else wait)

    def move(self, now: float, time: datetime) -> bool:
        """Let pods get their nodes and begin to train, as far as it is time for that; return whether one has begun."""
        has_begun = False
        while self._moves and self._moves[0][0] <= now:
            _, _, name, uid, wait = heapq.heappop(self._moves)
            pod = self._pods.get(name)
            if pod is None or pod.uid != uid or pod.over:
                continue
            own = self._group(name).container
            if not pod.node:
                new = Container(own, waiting=True, reason="ContainerCreating")
                node = self.slots[self._places[name]].node
                self._pods[name] = replace(pod, node=node, scheduled=time, containers=(new,))
                self._await(now + wait, pod, 0)
                continue
            before = pod.containers[0]
            running = Container(own, ready=True, started=time, restarts=before.restarts, before=before.before)
            self._pods[name], has_begun = replace(pod, phase=Phase.RUNNING, ready=True, containers=(running,)), True
        return has_begun

    def end(self, name: str, now: float, second: datetime) -> None:
        """Let the program of a replica exit with the assumed code.

        Where the kubelet restarts containers, those of all replicas that need each other exit and are restarted.
        """
        code = self._assumed.exit_code
        if not self._group(name).restart_policy.restarts_in_place:
            pod = self._pods[name]
            ended = replace(pod.containers[0], ready=False, exit_code=code, reason="Error", finished=second)
            self._pods[name] = replace(pod, phase=Phase.FAILED, ready=False, containers=(ended,))
            return
        ended_too = [other for other, pod in self._pods.items() if _runs(pod)] if self._subject.together else [name]
        for other in ended_too:
            pod = self._pods[other]
            own = pod.containers[0]
            last = TerminatedState(code, own.started, second, "Error")
            waits = Container(own.name, restarts=own.restarts + 1, waiting=True, reason="CrashLoopBackOff", before=last)
            self._pods[other] = replace(pod, ready=False, containers=(waits,))
            self._await(now + self._crash_loop(pod.uid, now) + self._assumed.restart_cost, pod, 0)

    def _crash_loop(self, uid: str, now: float) -> float:
        """Return how long the kubelet waits before it starts the container of a pod again that has exited now."""
        wait, started = self._waits.get(uid, (0.0, -FORGOTTEN_AFTER))
        if now - started > FORGOTTEN_AFTER:
            wait = 0.0
        self._waits[uid] = min(max(FIRST_WAIT, 2 * wait), LONGEST_WAIT), now + wait
        return wait

    def lose(self, slot: int, now: float, time: datetime) -> None:
        """Let a node fail with the pods on it: they are deleted, and gone with the next plan."""
        for name in self.on(slot):
            self._pods[name] = replace(
                self._pods[name],
                deleting=True,
                ready=False,
                disruption=NODE_LOST,
                disrupted=time,
                deletion_timestamp=time,
            )
            self.leaving.append(name)
        place = self.slots[slot]
        heapq.heappush(self._spares, now + self._assumed.replace_node)
        place.ready = max(now, heapq.heappop(self._spares))
        place.generation += 1

    def succeed(self, role: str, time: datetime) -> None:
        """Let the replicas of a role that train end with success, or with "" those of all roles."""
        for name, pod in self._pods.items():
            if _runs(pod) and (not role or self._subject.replicas[name].role == role):
                ended = replace(pod.containers[0], ready=False, exit_code=0, reason="Completed", finished=time)
                self._pods[name] = replace(pod, phase=Phase.SUCCEEDED, ready=False, containers=(ended,))

    def remove(self, names: list[str]) -> bool:
        """Remove pods; return whether the program of one has run until now."""
        self.leaving = []
        gone = [pod for name in names if (pod := self._pods.pop(name, None))]
        for pod in gone:
            self._waits.pop(pod.uid, None)
        return any(map(_runs, gone))

    def _group(self, name: str) -> ReplicaGroup:
        """Return the replica group of a pod."""
        return cast("ReplicaGroup", self._subject.job.of(self._subject.replicas[name].role))

    def _await(self, time: float, pod: Pod, wait: float) -> None:
        self._count += 1
        heapq.heappush(self._moves, (time, self._count, pod.name, pod.uid, wait))


def _runs(pod: Pod) -> bool:
    return pod.phase is Phase.RUNNING and not pod.deleting and not pod.containers[0].waiting

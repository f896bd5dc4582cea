"""A world small enough to be searched: one job, one operator, and everything that may happen next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from audit.auditor import Auditor
from audit.change import KUBELET, OPERATOR, Change, Request, Violation
from audit.ending import Ending
from sim import lives
from sim.faults import Fate, Passage
from sim.kubelets import path
from sim.moments import Handle
from sim.stage import Stage
from sim.transport import Flight
from trainshed.cluster.transport import Request as Sent
from trainshed.frameworks import served

from .deck import Deck
from .scenarios import Scenario
from .words import Names, digest, title

Document = dict[str, Any]
#: Seconds that a small world waits for somebody's timer before it says that there is nothing more to wait for, and
#: those that it is given at its end.
PATIENCE, FAREWELL = 25.0, 30.0
#: What does not wait on the table, as nothing is decided by it.
ASIDE = ("events", "services", "configmaps", "horizontalpodautoscalers")


class Wires:
    """Sends everything that matters as a message of its own; speaks `sim.faults.Weather`."""

    def __init__(self, eager: bool) -> None:
        self._fate = Fate(before=0.001, after=0.0 if eager else 0.001)

    def exchange(self, process: str, request: Sent) -> Fate:
        """A message, or at once."""
        del process
        return Fate(before=0.0, after=0.0) if _aside(request.path) or "watch" in request.query else self._fate

    def line(self, process: str, path: str, line: bytes) -> Passage:
        """A message."""
        del process, line
        return Passage(0.0 if _aside(path) else 0.001)


class SmallWorld:
    """Where it stands; `moves` may be made next, by their names, and `path` has been made so far."""

    def __init__(self, scenario: Scenario) -> None:
        logging.disable(logging.CRITICAL)
        self.path: list[str] = []
        self._scenario = scenario
        self._left = replace(scenario)
        self._stage = Stage(0, 1, Wires(scenario.eager), served("v1", (scenario.kind,)))
        self._loop = self._on_the_table()
        self._names = Names(self._stage.now)
        self._auditor = Auditor()
        self._stage.server.changes += [self._names.hear, self._hear]
        self._stage.server.requests.append(self._ask)
        self._machine = self._stage.machines[0]
        self._machine.settings["leader_elect"] = False
        self._failed = 0
        self._stage.submit(scenario.job())
        self._machine.start()
        self._loop.settle()

    @property
    def violations(self) -> list[Violation]:
        """The promises broken so far."""
        for error in self._loop.errors:
            told = f"{error.get('message')}: {error.get('exception')!r}"
            self._auditor.violations.append(Violation("V10", "the operator", self._stage.now(), told))
        self._loop.errors.clear()
        return self._auditor.violations

    @property
    def over(self) -> bool:
        """Whether the job has its verdict, and nothing is on its way."""
        return self._decided and not self._loop.messages

    @property
    def _decided(self) -> bool:
        conditions = self._job.get("status", {}).get("conditions", ())
        return any(one["type"] in ("Succeeded", "Failed") and one["status"] == "True" for one in conditions)

    def moves(self) -> dict[str, Callable[[], None]]:
        """All that may happen next."""
        found = dict(self._arrivals())
        if not found and not self.over:
            found["time passes"] = self._wait
        found |= dict(self._happenings())
        if self._left.crashes:
            found["the operator dies"] = self._crash
        return found

    def take(self, name: str, move: Callable[[], None]) -> None:
        """Let it happen."""
        self.path.append(name)
        move()
        self._loop.settle()

    def fingerprint(self) -> int:
        """The same for two states from which the same can happen."""
        server, operator = self._stage.server, self._machine.operator
        plurals = (f"{self._scenario.kind.lower()}s", "pods", "services")
        words = [self._names.document(found) for plural in plurals for found in server.objects(plural)]
        words += sorted(self._names.message(message) for message in self._loop.messages)
        words.append(repr((self._left.failures, self._left.crashes, self._left.old_lists)))
        if operator is not None:
            words += self._mind(operator)
        return digest(words)

    def finish(self) -> list[Violation]:
        """Let all go on as it will, and ask for the auditor's last word."""
        end = self._loop.time() + FAREWELL
        while True:
            channels = list(self._loop.channels())
            if channels:
                self._loop.deliver(channels[0])
            elif going := [pod for pod in self._pods() if "deletionTimestamp" in pod["metadata"]]:
                self._gone(going[0])
                self._loop.settle()
            elif not self._loop.wait(end):
                break
        uid = self._job["metadata"]["uid"]
        faults = len(self.path)
        injected = {uid: (0, self._failed)}
        self._auditor.close(Ending(at=self._stage.now(), faults=faults, lives=self._machine.lives, injected=injected))
        if not self._decided:
            told = "the job has no verdict"
            self._auditor.violations.append(Violation("V8", "the job", self._stage.now(), told))
        return self.violations

    # ------------------------------------------------------------------------------------------------------------------

    def _on_the_table(self) -> Deck:
        deck = Deck()
        self._stage.loop = deck
        for machine in self._stage.machines:
            machine._loop = deck
        return deck

    @property
    def _job(self) -> Document:
        found = self._stage.job(self._scenario.kind, "job")
        assert found is not None, "nobody has deleted it"
        return found

    def _pods(self) -> list[Document]:
        return self._stage.server.objects("pods")

    def _arrivals(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for messages in self._loop.channels():
            name = title(messages[0])
            yield name, lambda messages=messages: self._loop.deliver(messages)
            if self._left.old_lists and name in (
                "server hears GET pods",
                f"server hears GET {self._scenario.kind.lower()}s",
            ):
                for back in (1, 4, 16):
                    yield f"{name}, {back} versions ago", lambda one=messages[0], back=back: self._old(one, back)

    def _happenings(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for pod in self._pods():
            name, phase = pod["metadata"]["name"], pod["status"].get("phase", "Pending")
            if "deletionTimestamp" in pod["metadata"]:
                yield f"{name} is gone", lambda pod=pod: self._gone(pod)
            elif phase == "Pending":
                yield f"{name} runs", lambda pod=pod: self._tell(pod, lives.running(pod, self._stage.now()))
            elif phase == "Running":
                yield from self._ends(pod, name)

    def _ends(self, pod: Document, name: str) -> Iterator[tuple[str, Callable[[], None]]]:
        if name.endswith(self._scenario.decides):
            yield f"{name} succeeds", lambda: self._tell(pod, lives.ended(pod, 0, self._stage.now()))
        if self._left.failures:
            yield f"{name} fails", lambda: self._fail(pod)

    def _fail(self, pod: Document) -> None:
        self._left = replace(self._left, failures=self._left.failures - 1)
        self._failed += 1
        self._tell(pod, lives.ended(pod, self._scenario.code, self._stage.now()))

    def _tell(self, pod: Document, status: Document) -> None:
        if not pod["spec"].get("nodeName"):
            self._stage.server.request(KUBELET, "POST", f"{path(pod)}/binding", body={"target": {"name": "node-a"}})
        self._stage.server.request(KUBELET, "PATCH", f"{path(pod)}/status", body={"status": status})

    def _gone(self, pod: Document) -> None:
        self._stage.server.request(KUBELET, "DELETE", path(pod), body={"gracePeriodSeconds": 0})

    def _old(self, message: Handle, back: int) -> None:
        self._left = replace(self._left, old_lists=self._left.old_lists - 1)
        flight: Flight = message.callback.__self__  # type: ignore[attr-defined]
        flight.fate = replace(flight.fate, behind=max(100, self._stage.server.storage.version - back))
        self._loop.deliver([message])

    def _crash(self) -> None:
        self._left = replace(self._left, crashes=self._left.crashes - 1)
        self._machine.crash(lambda _: False)
        self._loop.messages = [one for one in self._loop.messages if not _of_the_dead(one)]
        self._machine.start()

    def _wait(self) -> None:
        """Let timers pass until one has made a difference."""
        before, end = self.fingerprint(), self._loop.time() + PATIENCE
        while self._loop.wait(end):
            if self._loop.messages or self.fingerprint() != before:
                return

    def _mind(self, operator: Any) -> Iterator[str]:
        district = operator._districts.all[""]
        view, queue, now = district.view, operator._queue, self._loop.time()
        current = {
            found["metadata"]["uid"]: found["metadata"]["resourceVersion"]
            for plural in (f"{self._scenario.kind.lower()}s", "pods", "services")
            for found in self._stage.server.objects(plural)
        }
        for store in (*view.jobs.values(), view.pods.store, view.services.store):
            yield from sorted(self._names.item(item, current.get(item.uid, "")) for item in store.items.values())
            yield "-"
        yield repr([informer.synced.is_set() for informer in operator._informers])
        yield repr((sorted(queue._since), sorted(queue._held), sorted(queue._again), sorted(queue._failures.items())))
        yield repr(sorted((key, round(timer.when() - now, 1)) for key, timer in queue._later.items()))
        yield self._names.plain(repr((view._troubles, district.reconciler._patience._unstored)))

    def _hear(self, change: Change) -> None:
        self._auditor.hear(change)

    def _ask(self, actor: str, request: Request) -> None:
        if actor == OPERATOR:
            self._auditor.asked(request)


def _aside(path: str) -> bool:
    return any(f"/{plural}" in path for plural in ASIDE)


def _of_the_dead(message: Handle) -> bool:
    return hasattr(getattr(message.callback, "__self__", None), "_line") or "Feed" in str(message.callback)

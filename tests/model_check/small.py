"""A world small enough to be searched: one job, one operator, and everything that may happen next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import orjson

from simulation.feed import Feed
from simulation.stage import Stage
from simulation.transport import Flight
from support.audit.auditor import Auditor
from support.audit.change import OPERATOR, Request, Violation
from support.audit.ending import Ending
from trainshed.frameworks import served

from .attention import Attention
from .deck import Deck
from .kubelets import FAILS, GONE, Course, Kubelets, Step
from .mind import mind
from .past import Past
from .scenarios import Scenario
from .wires import Wires
from .words import Names, digest, sender, tail, title

Document = dict[str, Any]
#: Seconds that a small world waits for somebody's timer before it says that there is nothing more to wait for, and
#: those that it is given at its end.
PATIENCE, FAREWELL = 25.0, 30.0
DIES = "the operator dies"


class SmallWorld:
    """Where it stands; `moves` may be made next, by their names, and `path` has been made so far."""

    def __init__(self, scenario: Scenario, *, every_order: bool = False) -> None:
        logging.disable(logging.CRITICAL)
        self.path: list[str] = []
        self._scenario = scenario
        self._left = replace(scenario)
        self._stage = Stage(0, 1, Wires(scenario.eager), served("v1", (scenario.kind,)))
        self._machine = self._stage.machines[0]
        self._stage.loop = self._machine._loop = self._loop = Deck()
        self._names = Names(self._stage.now)
        self._auditor = Auditor()
        # The garbage collector hears of nothing: nobody deletes the job, and to look in vain is a move, too.
        self._stage.server.changes[:] = [self._names.hear, self._auditor.hear]
        self._stage.server.requests.append(self._ask)
        self._machine.settings["leader_elect"] = False
        self._kubelets = Kubelets(self._stage.server, self._stage.now, scenario.decides, scenario.code)
        self._attention = Attention(self._machine, self._stage.server, scenario.kind)
        self._plurals = ("pods", f"{scenario.kind.lower()}s", "services")
        self._past = Past(self._stage.server, self._plurals[:2])
        self._lists = [f"server hears GET {plural}" for plural in self._plurals[:2]]
        self._every_order = every_order
        self._failed = 0
        self._stage.submit(scenario.job())
        self._machine.start()
        self._loop.settle()

    def close(self) -> None:
        """End it; nothing of it goes on."""
        self._stage.close()

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
        found = dict(self._steps()) if self._every_order else {}
        found |= dict(self._arrivals())
        if not self._loop.messages and not self.over:
            assert list(self._feeds()), "nobody would see what kubelets did before"
            found["time passes"] = self._wait
        if self._left.crashes and (self._every_order or not self._attention.starts()):
            found[DIES] = self._crash
        return found

    def take(self, name: str, move: Callable[[], None]) -> None:
        """Let it happen."""
        self.path.append(name)
        move()
        self._loop.settle()
        while not self._every_order and self._hear_what_is_known():
            pass

    def fingerprint(self) -> int:
        """The same for two states from which the same can happen."""
        words = [str(self.grave()), *sorted(self._names.message(message) for message in self._loop.messages)]
        if self._machine.operator is not None:
            words += self._mind(self._machine.operator)
        return digest(words)

    def grave(self) -> int:
        """The same for two states from which the same can happen once the operator is dead."""
        left = (self._left.failures, self._left.crashes, self._old_lists)
        past = self._past.words(self._names) if self._old_lists else ()
        return digest([str(self.outcome()), repr(left), *past])

    def outcome(self) -> int:
        """The same for two states in which the server has the same."""
        server = self._stage.server
        return digest([self._names.document(one) for plural in self._plurals for one in server.objects(plural)])

    def finish(self) -> list[Violation]:
        """Let all go on as it will, and ask for the auditor's last word."""
        end = self._loop.time() + FAREWELL
        while True:
            channels = list(self._loop.channels())
            if channels:
                self._loop.deliver(channels[0])
            elif going := [pod for pod in self._pods() if "deletionTimestamp" in pod["metadata"]]:
                self._kubelets.run((Step(going[0]["metadata"]["name"], GONE),))
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

    @property
    def _job(self) -> Document:
        found = self._stage.job(self._scenario.kind, "job")
        assert found is not None, "nobody has deleted it"
        return found

    def _pods(self) -> list[Document]:
        return self._stage.server.objects("pods")

    def _steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for course in self._kubelets.courses("", self._left.failures):
            if len(course) == 1:
                yield str(course[0]), lambda course=course: self._run(course)

    def _arrivals(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """What may arrive, after whatever kubelets may have done to the pods that it tells or asks of."""
        arriving = [(title(messages[0]), sender(messages[0])) for messages in self._loop.channels()]
        quiet = [feed for feed in self._feeds() if all(by is not feed for _, by in arriving)]
        starts = self._attention.starts()
        if not self._every_order and (starts or self._attention.looks(self._loop.messages)):
            arriving, quiet = [(name, by) for name, by in arriving if isinstance(by, Flight)], []
            arriving = arriving[:1] if starts or not self._left.crashes else arriving
        for name, by in [*arriving, *((f"watch tells of {tail(feed.path)}", feed) for feed in quiet)]:
            for course in self._courses(by):
                if course or by not in quiet:
                    told = "; ".join((", ".join(map(str, course)), name)) if course else name
                    yield told, lambda by=by, course=course: self._arrive(by, course)
            if self._old_lists and name in self._lists and self._machine.lives > 1:
                for back, version in self._past.versions(tail(by.request.path)):
                    yield f"{name}, {back} changes ago", lambda by=by, version=version: self._old(by, version)

    def _hear_what_is_known(self) -> bool:
        """Let a watch tell what is no news; whether there was one."""
        known = [told for told in self._loop.channels() if self._attention.knows(told)]
        if known:
            self._loop.deliver(known[0])
        return bool(known)

    def _feeds(self) -> Iterator[Feed]:
        """The watches of pods."""
        line = self._machine.line
        yield from (feed for feed in (line.feeds if line else ()) if tail(feed.path) == "pods")

    def _courses(self, by: Flight | Feed) -> Iterator[Course]:
        place = by.path if isinstance(by, Feed) else by.request.path
        _, about, rest = place.partition("/pods")
        if not about or self._every_order:
            return iter(((),))
        posted = isinstance(by, Flight) and by.request.verb == "POST"
        name = orjson.loads(by.request.body)["metadata"]["name"] if posted else rest.strip("/").partition("/")[0]
        return self._kubelets.courses(name, self._left.failures)

    def _run(self, course: Course) -> None:
        failed = sum(step.what == FAILS for step in course)
        self._left = replace(self._left, failures=self._left.failures - failed)
        self._failed += failed
        self._kubelets.run(course)

    def _arrive(self, by: Flight | Feed, course: Course) -> None:
        self._run(course)
        self._loop.deliver([message for message in self._loop.messages if sender(message) is by])

    @property
    def _old_lists(self) -> int:
        """How many of the lists that may yet be asked for may be old."""
        asked = any(title(message) in self._lists for message in self._loop.messages)
        return self._left.old_lists if asked or self._left.crashes or self._attention.doubts() else 0

    def _old(self, flight: Flight, version: int) -> None:
        self._left = replace(self._left, old_lists=self._left.old_lists - 1)
        flight.fate = replace(flight.fate, behind=version)
        self._arrive(flight, ())

    def _crash(self) -> None:
        self._left = replace(self._left, crashes=self._left.crashes - 1)
        self._machine.crash(lambda _: False)
        self._loop.messages = [one for one in self._loop.messages if not isinstance(sender(one), Flight | Feed)]
        self._machine.start()

    def _wait(self) -> None:
        """Let timers pass until one has made a difference."""
        before, end = self._standing(), self._loop.time() + PATIENCE
        while self._loop.wait(end):
            if self._loop.messages or self._standing() != before:
                return

    def _standing(self) -> int:
        """The same until something is different, and not only later."""
        self._names.timeless = True
        try:
            return self.fingerprint()
        finally:
            self._names.timeless = False

    def _mind(self, operator: Any) -> Iterator[str]:
        found = [one["metadata"] for plural in self._plurals for one in self._stage.server.objects(plural)]
        current = {meta["uid"]: meta["resourceVersion"] for meta in found}
        return mind(operator, self._names, current, self._loop.time())

    def _ask(self, actor: str, request: Request) -> None:
        if actor == OPERATOR:
            self._auditor.asked(request)

"""Sends one sequence to both servers, and returns the first difference of their responses and watch events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from trainshed.client.transport import Answer

from . import bodies
from .masks import CERTIFICATE, Mask, ranked
from .sequences import KINDS, Call, sequence
from .sides import Lines, Real, Side, Simulated, WatchLines, delete_all, eventually, path, request

Document = dict[str, Any]
MARKER = "zz"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between the two servers: the call, and the response of each."""

    seed: int
    call: str
    real: Any
    simulated: Any

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.call}\n  real:      {self.real}\n  simulated: {self.simulated}"


class Script:
    """The responses of one server so far, and the values that later calls need."""

    def __init__(self, side: Side, namespace: str, prefix: str) -> None:
        self.trace: list[tuple[str, Any]] = []
        self.calls = 0
        self.mask = Mask()
        self._side = side
        self._namespace = namespace
        self._prefix = prefix
        self._known: dict[str, str] = {}
        self._watches: list[tuple[Call, WatchLines]] = []

    async def put(self, call: Call) -> None:
        """Send a call, and record the response."""
        self.calls += 1
        name = f"{self._prefix}-{call.name}" if call.name else ""
        where = path(self._namespace, call.plural, name, call.part)
        query = {key: self._asked(value) for key, value in call.query.items()}
        query = {key: value for key, value in query.items() if value}
        if "fieldSelector" in query:
            query["fieldSelector"] = query["fieldSelector"].replace("name=", f"name={self._prefix}-")
        if call.verb == "WATCH":
            await self._watch(call, request("GET", where, query))
            return
        answer = await self._side.ask(request(call.verb, where, query, self._filled(call.body)))
        self._learn(call.plural, answer)
        self.trace.append((str(call), self.mask.answer(answer.status, answer.content)))

    async def state(self, kinds: tuple[str, ...], mask: Mask) -> list[Any]:
        """Return all objects of these kinds."""
        found = []
        for plural in kinds:
            answer = await self._side.ask(request("GET", path(self._namespace, plural)))
            found.append(mask.answer(answer.status, answer.content))
        return found

    async def settle(self, kinds: tuple[str, ...]) -> None:
        """Record all objects after the controllers have finished."""
        for plural in kinds:
            answer = await self._side.ask(request("GET", path(self._namespace, plural)))
            self._learn(plural, answer)
            self.trace.append((f"settled {plural}", self.mask.answer(answer.status, answer.content)))

    async def end(self) -> None:
        """Record the events of the watches, up to a last object that each of them sees."""
        for plural in dict.fromkeys(call.plural for call, _ in self._watches):
            body = {**bodies.plain(plural), "metadata": {"name": f"{self._prefix}-{MARKER}", "labels": {"app": "a"}}}
            await self._side.ask(request("POST", path(self._namespace, plural), body=body))
        for call, watched in self._watches:
            if watched.answer.status < 400:
                await eventually(lambda watched=watched: _ends(watched))
            lines = [line for line in watched.lines if line["object"]["metadata"].get("name") != CERTIFICATE]
            events = [{"type": line["type"], **self._seen(line["object"])} for line in lines]
            self.trace.append((str(call), {"code": watched.answer.status, "lines": events}))
        await self._side.close()

    def _seen(self, found: Document) -> Document:
        if found.get("kind") == "Status":
            return {"code": found["code"], "reason": found.get("reason")}
        return {"object": self.mask.document(found)}

    def _asked(self, value: str) -> str:
        """Return a parameter; an unknown version or token of a list is omitted, one of an object is too old."""
        return self._known.get(value, "1" if value.startswith("$rv:") else "") if value.startswith("$") else value

    async def _watch(self, call: Call, sent: Any) -> None:
        watched = await self._side.watch(sent)
        self._watches.append((call, watched))

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self._filled(part) for part in value]
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        if value.startswith("$name:"):
            return f"{self._prefix}-{value.removeprefix('$name:')}"
        unknown = {"$uid": bodies.UNKNOWN_UID, "$rv": "1", "$old": "1"}
        return self._known.get(value, unknown.get(value.partition(":")[0], ""))

    def _learn(self, plural: str, answer: Answer) -> None:
        if answer.status >= 400:
            return
        found = orjson.loads(answer.content)
        metadata = found.get("metadata", {})
        if found.get("kind", "").endswith("List"):
            self._known[f"$list:{plural}"] = metadata["resourceVersion"]
            self._known[f"$continue:{plural}"] = metadata.get("continue", "")
            for item in found["items"]:
                self._learn_of(plural, item["metadata"])
        elif metadata.get("uid"):
            self._learn_of(plural, metadata)

    def _learn_of(self, plural: str, metadata: Document) -> None:
        key = f"{plural}/{metadata['name'].removeprefix(f'{self._prefix}-')}"
        self._known[f"$uid:{key}"] = metadata["uid"]
        self._known[f"$rv:{key}"] = metadata["resourceVersion"]
        self._known.setdefault(f"$old:{key}", metadata["resourceVersion"])


async def _ends(watched: WatchLines) -> bool:
    return any(
        line["type"] == "ERROR" or line["object"]["metadata"]["name"].endswith(f"-{MARKER}") for line in watched.lines
    )


class Comparison:
    """One sequence on both servers."""

    def __init__(self, seed: int, real: Real, namespace: str) -> None:
        self.seed = seed
        self.calls = sequence(seed)
        self._namespace = namespace
        self._simulated = Simulated(namespace)
        prefix = f"s{seed}"
        self._scripts = (Script(real, namespace, prefix), Script(self._simulated, namespace, prefix))
        self._real = real
        self._kinds = tuple(dict.fromkeys(call.plural for call in self.calls))

    async def differ(self) -> Difference | None:
        """Return the first difference, or None."""
        collected = False
        for call in self.calls:
            for script in self._scripts:
                await script.put(call)
            if self._simulated.collects_garbage():
                collected = True
                await self._settle()
        for script in self._scripts:
            await script.end()
        await delete_all(self._real, self._namespace, self._kinds)
        return self._first(apart=collected)

    async def _settle(self) -> None:
        real, simulated = self._scripts

        async def same() -> bool:
            states = [ranked(await script.state(self._kinds, Mask()), apart=True) for script in (real, simulated)]
            return states[0] == states[1]

        await eventually(same)
        for script in self._scripts:
            await script.settle(self._kinds)

    def _first(self, *, apart: bool) -> Difference | None:
        real, simulated = (ranked([said for _, said in script.trace], apart=apart) for script in self._scripts)
        if apart:
            real, simulated = ([_by_object(said) for said in trace] for trace in (real, simulated))
        for (call, _), theirs, own in zip(self._scripts[0].trace, real, simulated, strict=True):
            if theirs != own:
                return Difference(self.seed, call, *_narrowed(theirs, own))
        return None


def _by_object(found: Document) -> Document:
    """Group the events of a watch by object: controllers change several objects in any order."""
    if "lines" not in found:
        return found
    by_name: dict[str, list[Any]] = {}
    for line in found["lines"]:
        name = line["object"]["metadata"]["name"] if "object" in line else ""
        by_name.setdefault(name, []).append(line)
    return {**found, "lines": dict(sorted(by_name.items()))}


def _narrowed(theirs: Any, own: Any, where: str = "") -> tuple[Any, Any]:
    """Return the smallest part that differs."""
    if isinstance(theirs, dict) and isinstance(own, dict):
        for key in sorted({*theirs, *own}, key=str):
            if theirs.get(key, "(nothing)") != own.get(key, "(nothing)"):
                return _narrowed(theirs.get(key, "(nothing)"), own.get(key, "(nothing)"), f"{where}.{key}")
    if isinstance(theirs, list) and isinstance(own, list) and len(theirs) == len(own):
        for number, (one, other) in enumerate(zip(theirs, own, strict=True)):
            if one != other:
                return _narrowed(one, other, f"{where}[{number}]")
    return f"{where} {theirs}", f"{where} {own}"


__all__ = ["KINDS", "Comparison", "Difference", "Lines"]

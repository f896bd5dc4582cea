"""Random sequences of calls as data: the same seed gives the same calls.

A value from an earlier response is a word that begins with `$`: `$uid:pods/a`, `$rv:pods/a` (the latest version),
`$old:pods/a` (the first), `$list:pods` (the version of a list), `$continue:pods`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from . import bodies

Document = dict[str, Any]
NAMES = ("a", "b", "c")
CUSTOM = ("tfjobs", "pytorchjobs")
KINDS = ("pods", "services", "configmaps", "leases", "secrets", "roles", *CUSTOM)
SELECTORS = ("", "", "", "app=a", "app in (a, b)", "app!=b", "!tier", "app,app!=c")
POLICIES = ("", "", "Background", "Foreground", "Orphan")


@dataclass(frozen=True, slots=True)
class Call:
    """A request; with the verb WATCH its events are read at the end."""

    verb: str
    plural: str
    name: str = ""
    part: str = ""
    query: dict[str, str] = field(default_factory=dict)
    body: Document | None = None

    def __str__(self) -> str:
        query = "&".join(f"{key}={value}" for key, value in self.query.items())
        path = "/".join(word for word in (self.plural, self.name, self.part) if word)
        return f"{self.verb} {path}{'?' if query else ''}{query} {self.body if self.body is not None else ''}".rstrip()


class SequenceBuilder:
    """Draws one sequence about a few objects of a few kinds."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._kinds = self._random.sample(KINDS, self._random.choice((1, 1, 2, 3)))
        self._names = NAMES[: self._random.choice((1, 2, 3))]
        #: Swarm testing: each sequence has its own weights.
        verbs = ("create", "get", "list", "put", "merge", "metadata", "status", "delete", "bind", "watch", "bad")
        self._weights = {verb: self._random.choice((0, 1, 1, 3)) for verb in verbs} | {"create": 3}

    def build(self) -> list[Call]:
        """Return the calls."""
        length = self._random.choice((5, 10, 15, 25))
        verbs, weights = tuple(self._weights), tuple(self._weights.values())
        calls = (getattr(self, f"_{verb}")() for verb in self._random.choices(verbs, weights, k=length))
        return [self._create(), *(call for call in calls if call is not None)]

    def _pick(self) -> tuple[str, str]:
        return self._random.choice(self._kinds), self._random.choice(self._names)

    def _create(self) -> Call:
        plural, name = self._pick()
        body = bodies.new(self._random, plural, name)
        choose = self._random.random()
        if choose < 0.25:
            body["metadata"]["ownerReferences"] = [self._owner()]
        elif choose < 0.35:
            body["metadata"]["finalizers"] = ["example.com/hold"]
        return Call("POST", plural, body=body)

    def _get(self) -> Call:
        plural, name = self._pick()
        return Call("GET", plural, name)

    def _list(self) -> Call:
        plural, _ = self._pick()
        query: dict[str, str] = {}
        selector = self._random.choice(SELECTORS)
        if selector:
            query["labelSelector"] = selector
        elif self._random.random() < 0.2:
            query["fieldSelector"] = f"metadata.name={self._random.choice(self._names)}"
        if self._random.random() < 0.4:
            query["limit"] = self._random.choice(("1", "2", "500"))
            if self._random.random() < 0.5:
                query["continue"] = f"$continue:{plural}"
            if plural == "configmaps":
                query["labelSelector"] = "app"  # each real namespace has one more
        return Call("GET", plural, query=query)

    def _watch(self) -> Call:
        plural, name = self._pick()
        version = self._random.choice((f"$list:{plural}", f"$list:{plural}", f"$rv:{plural}/{name}", ""))
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "60"}
        selector = self._random.choice(SELECTORS)
        return Call("WATCH", plural, query=query | ({"labelSelector": selector} if selector else {}))

    def _put(self) -> Call:
        plural, name = self._pick()
        body = bodies.new(self._random, plural, name)
        self._precondition(body["metadata"], plural, name, needed=0.7)
        if plural in bodies.WITH_STATUS and self._random.random() < 0.3:
            return Call("PUT", plural, name, "status", body={**body, "status": bodies.status(self._random, plural)})
        return Call("PUT", plural, name, body=body)

    def _merge(self) -> Call:
        plural, name = self._pick()
        patch = bodies.change(self._random, plural)
        metadata: Document = {}
        self._precondition(metadata, plural, name, needed=0.3)
        return Call("PATCH", plural, name, body={**patch, "metadata": metadata} if metadata else patch)

    def _metadata(self) -> Call:
        plural, name = self._pick()
        finalizers = self._random.choice(([], None, ["example.com/hold"], ["example.com/hold", "example.com/too"]))
        owners: Any = self._random.choice((None, [self._owner()], [self._owner(), self._owner()]))
        metadata = self._random.choice(
            (
                {
                    "labels": self._random.choice(
                        ({"app": "b"}, {"app": None}, {"tier": "x"}, {"app": "a", "tier": None})
                    )
                },
                {"annotations": {"note": self._random.choice(("x", "y", None))}},
                {"finalizers": finalizers},
                {"ownerReferences": owners},
                {},
            )
        )
        self._precondition(metadata, plural, name, needed=0.2)
        part = "status" if plural in bodies.WITH_STATUS and self._random.random() < 0.2 else ""
        return Call("PATCH", plural, name, part, body={"metadata": metadata})

    def _status(self) -> Call:
        plural, name = self._pick()
        body: Document = {"status": bodies.status(self._random, plural)}
        metadata: Document = {}
        self._precondition(metadata, plural, name, needed=0.5)
        if metadata:
            body["metadata"] = metadata
        if self._random.random() < 0.1:
            body |= bodies.change(self._random, plural)
        part = "" if self._random.random() < 0.1 else "status"
        return Call("PATCH", plural, name, part, body=body)

    def _delete(self) -> Call:
        plural, name = self._pick()
        options: Document = {}
        policy = self._random.choice(POLICIES)
        if policy:
            options["propagationPolicy"] = policy
        preconditions: Document = {}
        if self._random.random() < 0.5:
            preconditions["uid"] = self._random.choice((f"$uid:{plural}/{name}",) * 3 + (bodies.UNKNOWN_UID,))
        if self._random.random() < 0.2:
            preconditions["resourceVersion"] = self._version(plural, name)
        if preconditions:
            options["preconditions"] = preconditions
        if plural == "pods" and self._random.random() < 0.6:
            options["gracePeriodSeconds"] = self._random.choice((0, 0, 5, 60))
        return Call("DELETE", plural, name, body=options)

    def _bind(self) -> Call | None:
        if "pods" not in self._kinds:
            return None
        name = self._random.choice(self._names)
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-a"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"$name:{name}"}, "target": target}
        return Call("POST", "pods", name, "binding", body=body)

    def _bad(self) -> Call:
        plural, name = self._pick()
        body = bodies.new(self._random, plural, name)
        return bodies.invalid(self._random, plural, name, body)

    def _version(self, plural: str, name: str) -> str:
        return self._random.choice((f"$rv:{plural}/{name}",) * 2 + (f"$old:{plural}/{name}",))

    def _precondition(self, metadata: Document, plural: str, name: str, needed: float) -> None:
        if self._random.random() < needed:
            metadata["resourceVersion"] = self._version(plural, name)
        if self._random.random() < 0.3:
            metadata["uid"] = self._random.choice((f"$uid:{plural}/{name}",) * 3 + (bodies.UNKNOWN_UID,))

    def _owner(self) -> Document:
        plural, name = self._pick()
        uid = bodies.UNKNOWN_UID if self._random.random() < 0.1 else f"$uid:{plural}/{name}"
        owner = {**bodies.HEADS[plural], "name": f"$name:{name}", "uid": uid}
        if self._random.random() < 0.7:
            owner["blockOwnerDeletion"] = True
        if self._random.random() < 0.5:
            owner["controller"] = True
        return owner


def sequence(seed: int) -> list[Call]:
    """Return the calls of a seed."""
    return SequenceBuilder(seed).build()

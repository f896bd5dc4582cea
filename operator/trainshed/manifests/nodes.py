r"""The nodes of a document of YAML, from the events of a scanner that finds what Go finds, or of libyaml.

libyaml needs a tenth of the time, but it is newer than its copy in Go. Of what both accept, a few things differ, as
tests/unit/manifests compares: those are refused where libyaml reads a text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml import events
from yaml.error import Mark, MarkedYAMLError, YAMLError
from yaml.reader import Reader

from . import scalars
from .scanner import GoLoader

#: Levels of mappings and lists. Pods have about ten.
DEEPEST = 100
#: The characters of a file from which on libyaml reads it, and from which on nothing else does, because it takes long.
LONG, LONGEST = 1 << 16, 1 << 20
#: The most keys and values of a document of YAML, which need memory and time.
MOST = 2_000_000
STARTS = (events.SequenceStartEvent, events.MappingStartEvent)
ENDS = (events.SequenceEndEvent, events.MappingEndEvent)
VALUES = (*STARTS, events.ScalarEvent)


class BadManifest(ValueError):
    """A text is not what kubectl accepts; the message has the place, unless the text may contain secrets."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.problem, self.line = problem, line


def root_of(content: str, size: int) -> Node | None:
    """Return the root of a document in a file of this size; raises YAMLError and `BadManifest`."""
    if size > LONG and yaml.__with_libyaml__:
        try:
            return _Tree(_quick_events(content)).root()
        except (YAMLError, BadManifest):  # which Go may accept
            if size > LONGEST:
                raise
    elif size > LONGEST:
        raise BadManifest(f"has more than {LONGEST >> 20} MiB of YAML, and PyYAML is installed without libyaml")
    return _Tree(GoLoader(content).get_event).root()


def too_deep(line: int) -> BadManifest:
    """Return the error of a value that is nested too deeply."""
    return BadManifest(f"is nested deeper than {DEEPEST} levels", line)


def _quick_events(text: str) -> Callable[[], Any]:
    """Return a function that returns one event after another; both raise YAMLError."""
    Reader(text)  # which refuses control characters
    for characters, what in (("\\/", "the escape \\/"), ("\ufeff", "a byte order mark in the text")):
        if (at := text.find(characters)) >= 0:
            raise _differs(what, text.count("\n", 0, at))
    parser, flows = yaml.CSafeLoader(text), [False]

    def following() -> Any:  # noqa: ANN401 - events have no common attributes
        event = parser.get_event()
        if isinstance(event, events.DocumentStartEvent) and (event.version or event.tags):
            raise _differs("a directive such as %YAML", _line(event))
        if isinstance(event, ENDS):
            flows.pop()
        elif flows[-1] and isinstance(event, VALUES) and _is_odd(event):
            raise _differs("a tag, or a ? without quotes, in […] or {…}", _line(event))
        if isinstance(event, STARTS):
            flows.append(bool(event.flow_style))
        return event

    return following


def _line(event: Any) -> int:  # noqa: ANN401 - events have no common attributes
    return int(event.start_mark.line)


def _is_odd(event: Any) -> bool:  # noqa: ANN401 - events have no common attributes
    """Return whether a value in a flow collection may be another one in Go."""
    return event.tag is not None or (isinstance(event, events.ScalarEvent) and event.implicit[0] and "?" in event.value)


def _differs(what: str, line: int) -> MarkedYAMLError:
    problem = f"{what} is not read in a file of more than {LONGEST >> 20} MiB"
    return MarkedYAMLError(problem=problem, problem_mark=Mark("", 0, line, 0, None, 0))


@dataclass(slots=True)
class Node:
    """A node of a document: a scalar if it has a text, an alias if it has a target, else a mapping or a list."""

    line: int
    tag: str | None = None
    text: str | None = None
    plain: bool = False
    target: Node | None = None
    items: list[Node] = field(default_factory=list)
    pairs: list[tuple[Node, Node]] | None = None

    @property
    def is_merge(self) -> bool:
        """Whether this is the key of a mapping that is merged into the one around it."""
        return self.text == "<<" and (self.plain or self.tag == scalars.MERGE)


class _Tree:
    """Makes nodes of events."""

    def __init__(self, next_event: Callable[[], Any]) -> None:
        self._next = next_event
        self._anchors: dict[str, Node] = {}
        self._count = 0

    def root(self) -> Node | None:
        """Return the root of the only document, None if there is none."""
        self._next()  # the start of the stream
        if isinstance(self._next(), events.StreamEndEvent):
            return None
        found = self._node(self._next(), 0)
        self._next()  # the end of the document
        after = self._next()
        if not isinstance(after, events.StreamEndEvent):
            raise BadManifest("a further document must begin with ---", after.start_mark.line)
        return found

    def _node(self, event: Any, depth: int) -> Node:  # noqa: ANN401 - events have no common attributes
        line = event.start_mark.line
        self._count += 1
        if depth > DEEPEST:
            raise too_deep(line)
        if self._count > MOST:
            raise BadManifest(f"the document has more than {MOST} keys and values", line)
        if isinstance(event, events.AliasEvent):
            if event.anchor not in self._anchors:
                raise BadManifest(f"there is no anchor &{event.anchor}", line)
            return Node(line, target=self._anchors[event.anchor], text=event.anchor)
        if isinstance(event, events.ScalarEvent):
            return self._named(event, Node(line, event.tag, event.value, event.implicit[0]))
        if isinstance(event, events.SequenceStartEvent):
            node = self._named(event, Node(line, event.tag))
            while not isinstance(item := self._next(), events.SequenceEndEvent):
                node.items.append(self._node(item, depth + 1))
            return node
        pairs: list[tuple[Node, Node]] = []
        node = self._named(event, Node(line, event.tag, pairs=pairs))
        while not isinstance(key := self._next(), events.MappingEndEvent):
            pairs.append((self._node(key, depth + 1), self._node(self._next(), depth + 1)))
        return node

    def _named(self, event: Any, node: Node) -> Node:  # noqa: ANN401 - events have no common attributes
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

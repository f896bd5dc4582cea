"""Documents of YAML and JSON as kubectl reads them, each with its place in the file.

Unlike kubectl itself, which lets the last one win, a key that is given twice is refused: that is what its
`--validate=strict` promises. So is text that kubectl ignores without a word, such as a document after `...`.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from yaml.error import MarkedYAMLError, YAMLError
from yaml.reader import ReaderError

from . import scalars
from .nodes import DEEPEST, BadManifest, Node, root_of, too_deep

#: The greatest text, in bytes. The API server takes 3 MiB for one object.
LARGEST = 16 << 20
#: The most documents of a text: so many small ones take seconds to read.
MOST_DOCUMENTS = 10_000
#: Characters of a number that a message shows.
SHOWN = 40
#: Go refuses a document of more than 1,000 nodes if this part of them comes from aliases: of up to 400,000 nodes 99 %,
#: of four million and more 10 %.
FEW, MANY, MOST_OF_FEW, MOST_OF_MANY = 400_000, 4_000_000, 0.99, 0.10

#: Byte order marks, and the encodings that they mean.
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

Value = Any


@dataclass(frozen=True, slots=True)
class Document:
    """A value, the number of its document in the file, and the line in which the document begins.

    `source` is the text that it was read from, and `first` the number of the first line of that.
    """

    value: Value
    number: int = 1
    line: int = 1
    source: str = ""
    first: int = 1


def text(content: bytes) -> str:
    """Return the text of a file: UTF-8, or what its byte order mark says. Raises `BadManifest`."""
    if len(content) > LARGEST:
        raise BadManifest(f"has more than {LARGEST >> 20} MiB")
    mark, encoding = next(((mark, name) for mark, name in MARKS if content.startswith(mark)), (b"", "utf-8"))
    try:
        return content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise BadManifest(f"is not {encoding.upper()}", content[: error.start].count(b"\n") + 1) from None


def documents(content: str) -> Iterator[Document]:
    """Yield the documents of a file that are not empty; raises `BadManifest`.

    A file that begins with a brace is read as JSON values one after another. Where that fails, which is at once for a
    flow mapping of YAML, YAML is read.
    """
    if len(content) > LARGEST:
        raise BadManifest(f"has more than {LARGEST >> 20} MiB")
    content = content.removeprefix("\ufeff")
    number = read = begin = counted = 0
    line = 1
    if content.lstrip()[:1] == "{":
        for value, start, end in _json_values(content):
            line, counted = line + content.count("\n", counted, start), start
            number = read = _more(read, line)
            begin = end
            yield Document(value, number, line, content[start:end], line)
        begin = _after(content, begin, r"[^\S\n]*\n?")  # the rest of the line that a value of JSON ends
    first = content.count("\n", 0, begin)
    for chunk, line in _chunks(content[begin:]):
        blank = _blank_lines(chunk)
        if blank is None:
            continue
        read = _more(read, first + line)
        value = document(chunk, first + line, size=len(content))
        if value is not None:
            number += 1
            yield Document(value, number, first + line + blank, chunk, first + line)


def _more(read: int, line: int) -> int:
    """Return the number of documents with the next one, which begins in this line."""
    if read == MOST_DOCUMENTS:
        raise BadManifest(f"has more than {MOST_DOCUMENTS:,} documents", line)
    return read + 1


def _blank_lines(chunk: str) -> int | None:
    """Return how many lines without content a chunk has at its beginning; None if no line has any."""
    lines = map(str.strip, chunk.split("\n"))
    return next((at for at, line in enumerate(lines) if line and line[0] != "#" and line != "---"), None)


def _chunks(content: str) -> Iterator[tuple[str, int]]:
    """Yield the parts between lines that begin with `---`, and the numbers of their first lines."""
    chunk: list[str] = []
    first = 1
    for at, line in enumerate(content.replace("\r\n", "\n").removesuffix("\n").split("\n"), 1):
        if line.startswith("---"):
            after = line[3:].strip()
            if after and after[0] != "#":
                raise BadManifest(f"only a comment may follow --- on its line, not {after[:40]!r}", at)
            if chunk:
                yield "\n".join((*chunk, "")), first
                chunk, first = [], at + 1
                continue
        chunk.append(line)
    yield "\n".join((*chunk, "")), first


def _json_values(content: str) -> Iterator[tuple[Value, int, int]]:
    """Yield the values of JSON at the beginning of a text, each with start and end, as long as JSON follows."""
    decoder = json.JSONDecoder(**_RULES)
    at = count = 0
    while (begin := _after(content, at, r"[ \t\r\n]*")) < len(content):
        try:
            value, end = decoder.raw_decode(content, begin)
        except _Twice as error:
            # PyYAML knows the line of the key.
            document(content[begin:], content.count("\n", 0, begin) + 1)
            raise BadManifest(str(error), content.count("\n", 0, begin) + 1) from None
        except RecursionError:
            raise too_deep(content.count("\n", 0, begin) + 1) from None
        except json.JSONDecodeError as error:
            if count > 1:  # kubectl does not return to YAML after two values
                raise BadManifest(error.msg, error.lineno) from None
            return
        except _TooLarge as error:
            at = content.find(error.digits, begin)
            raise BadManifest(str(error), content.count("\n", 0, at) + 1) from None
        if _depth(value) > DEEPEST:
            raise too_deep(content.count("\n", 0, begin) + 1)
        count, at = count + 1, end
        yield _whole_characters(value, content[begin:end]), begin, end


def _after(content: str, at: int, pattern: str) -> int:
    found = re.compile(pattern).match(content, at)
    return found.end() if found else at


class _Twice(ValueError):
    """A name stands twice in an object of JSON."""


def _once(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, value in pairs:
        if name in found:
            raise _Twice(f"the key {name!r} is given twice")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is no value of JSON", name, 0)


class _TooLarge(ValueError):
    """A number is greater than a float64 can be; for Go it is none."""

    def __init__(self, digits: str) -> None:
        shown = digits if len(digits) <= SHOWN else f"{digits[:SHOWN]}… ({len(digits)} characters)"
        super().__init__(f"{shown} is too large a number")
        self.digits = digits


def _json_float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise _TooLarge(digits)
    return scalars.number(value)


def _json_int(digits: str) -> int:
    _json_float(digits)
    return int(digits)


_RULES: Any = {
    "object_pairs_hook": _once,
    "parse_constant": _no_constant,
    "parse_float": _json_float,
    "parse_int": _json_int,
}


def _depth(value: Value) -> int:
    """Return the levels of a value, or one more than are allowed."""
    level, depth = [value], 0
    while level and depth <= DEEPEST:
        level = [
            item
            for found in level
            if isinstance(found, (dict, list))
            for item in (found.values() if isinstance(found, dict) else found)
        ]
        depth += 1
    return depth


def _whole_characters(value: Value, source: str) -> Value:
    """Return a value of JSON with U+FFFD for halves of surrogate pairs, as Go reads them."""
    if not re.search(r"\\u[dD][89a-fA-F]", source):
        return value
    written = json.dumps(value, ensure_ascii=False)
    return json.loads(written.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


@lru_cache(maxsize=2)
def root(source: str) -> Node | None:
    """Return the root of a document that was read before, for the lines of its fields; None if it has none."""
    try:
        return root_of(source, len(source))
    except (YAMLError, BadManifest):  # of JSON, which YAML does not include in all respects
        return None


def document(content: str, first: int = 1, *, unique: bool = True, size: int = 0) -> Value:
    """Return the value of one document of YAML; None if it is empty.

    Args:
        content: The text; nothing but comments may follow the document.
        first: The number of the first line, for errors.
        unique: Whether a key that is given twice is refused; if not, the last one wins.
        size: The characters of the file, if it has more than the document.

    Raises:
        BadManifest: The text is not YAML, has no value in JSON, or is too large when its aliases are replaced.
    """
    try:
        root = root_of(content, size or len(content))
    except ReaderError as error:
        line = content.count("\n", 0, error.position) + first
        raise BadManifest(f"control character U+{error.character:04X} is not allowed", line) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadManifest(f"{error.problem or error.context}", mark.line + first if mark else first) from None
    except YAMLError as error:
        raise BadManifest(str(error), first) from None
    except BadManifest as error:
        raise BadManifest(error.problem, error.line + first) from None
    return _Values(first, unique=unique).value(root) if root else None


def first_document(content: str, *, unique: bool = True) -> Value:
    """Return the value of the first document of a file, as Go's Unmarshal does, which reads no more; see `document`."""
    return document(*next(_chunks(content)), unique=unique)


class _Values:
    """Makes values of nodes, in Go's order; the counts are those that limit aliases in Go."""

    def __init__(self, first: int, *, unique: bool) -> None:
        self._first, self._unique = first, unique
        self._count = self._aliased = self._within = self._depth = 0
        self._open: set[int] = set()

    def value(self, node: Node) -> Value:
        """Return the value of a node as JSON has it."""
        found = self._raw(node)
        if not isinstance(found, float):
            return found
        if found != found or found in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN
            raise self._problem(node, f"{node.text} has no value in JSON")
        return scalars.number(found)

    def _raw(self, node: Node) -> Value:
        self._enter(node)
        try:
            if node.target is not None:
                return self._alias(node, node.target)
            if node.text is not None:
                return scalars.scalar(node.text, node.tag, plain=node.plain)
            if node.pairs is None:
                return [self.value(item) for item in node.items]
            return self._mapping(node, {})
        except scalars.NoScalar as error:
            raise self._problem(node, str(error)) from None
        finally:
            self._depth -= 1

    def _enter(self, node: Node) -> None:
        self._depth += 1
        if self._depth > DEEPEST + 1:
            raise self._problem(node, f"is nested deeper than {DEEPEST} levels")
        self._count += 1
        self._aliased += self._within > 0
        few = min(max(self._count - FEW, 0) / (MANY - FEW), 1)
        allowed = MOST_OF_FEW - (MOST_OF_FEW - MOST_OF_MANY) * few
        if self._aliased > 100 and self._count > 1000 and self._aliased / self._count > allowed:  # noqa: PLR2004 - Go's
            raise self._problem(node, "too much of the document comes from aliases")

    def _alias(self, node: Node, target: Node) -> Value:
        if id(node) in self._open:
            raise self._problem(node, f"&{node.text} contains itself")
        self._open.add(id(node))
        self._within += 1
        found = self._raw(target)
        self._within -= 1
        self._open.remove(id(node))
        return found

    def _mapping(self, node: Node, found: dict[str, Value]) -> dict[str, Value]:
        for key, item in node.pairs or ():
            if key.is_merge:
                self._merge(item, found)
                continue
            name = self._key(key)
            value = self.value(item)
            if self._unique and name in found:
                raise self._problem(key, f"the key {name!r} is given twice")
            found[name] = value
        return found

    def _key(self, node: Node) -> str:
        found = self._raw(node)
        if isinstance(found, (dict, list)):
            raise self._problem(node, "a key must be a text, not a mapping or a list")
        try:
            return scalars.key(found)
        except scalars.NoScalar as error:
            raise self._problem(node, str(error)) from None

    def _merge(self, node: Node, found: dict[str, Value]) -> None:
        """Add the keys of a mapping, or of a list of mappings, to a mapping. As in Go, none may be there already."""
        listed = node.target is None and node.text is None and node.pairs is None
        # The last one first: with keys that are given twice, the first one wins.
        for item in reversed(node.items) if listed else (node,):
            if (item.target or item).pairs is None:
                raise self._problem(item, "<< takes a mapping or a list of mappings")
            self._enter(item)
            if item.target is None:
                self._mapping(item, found)
            else:
                self._within += 1
                self._enter(item.target)
                self._mapping(item.target, found)
                self._depth -= 1
                self._within -= 1
            self._depth -= 1

    def _problem(self, node: Node, what: str) -> BadManifest:
        return BadManifest(what, node.line + self._first)

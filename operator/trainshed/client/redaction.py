"""Redacts values of jobs in error messages: the API server may quote a request, and errors go to logs and Events.

Readers of a log may not be allowed to read the jobs, and environments and command lines often contain passwords. So
every value that the user has set there is replaced in the server's message; the name of the field and the description
of the error are kept.

This runs in the event loop, so its work is bounded: the message is cut, and read a constant number of times however
many values there are. Where a body has too much to compare, only words that servers use are kept of the message.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from trainshed.api.foreign_text import one_line
from trainshed.client import ApiError

E = TypeVar("E", bound=ApiError)
#: Replaces a redacted value.
REDACTED = "(hidden)"
#: Lengths in characters: shorter values are not redacted; values shorter than WORD are redacted as whole words only;
#: lines of a script of at least LINE are redacted by themselves.
SHORTEST, WORD, LINE = 4, 8, 8
#: Characters of a message that are kept, more than is ever shown.
MOST = 4096
#: The work for one message, in units of about a microsecond: of a text, of so many characters of a plain one, and of a
#: text with characters that may be quoted in several ways, and so many of its characters.
MOST_WORK = 12_000
PLAIN_CHARACTERS, OTHER_TEXT, OTHER_CHARACTERS = 256, 12, 6
#: A run of covered characters.
COVERED = re.compile(rb"\x01+")
#: A text in quotes, which may have lost its end, or a word.
QUOTED_OR_WORD = re.compile(r'"(?:[^"\\]|\\.)*"?|[^\s"]+')
#: The words that are kept of a message if the body is too large: those in which API servers describe refusals.
KNOWN_TEXT = """
admission already and API at because being by cannot create denied does error exceeded exist exists failed field
for forbidden found group has have in invalid Invalid is it limit limited longer maximum may minimum must namespace new
no not of or patch policy quota request requested required Required resource status still terminated the this to too
large Too long Unsupported unknown unable update used value violates was webhook with configmaps pods podgroups roles
rolebindings secrets serviceaccounts services
"""
KNOWN_WORDS = frozenset(KNOWN_TEXT.split())


def redact(message: str, body: object) -> str:
    """Return the message without the values of environments, command lines, annotations and data of the body."""
    message, public, work = message[:MOST], _identity(body), _Work()
    try:
        return _without(message, _candidates(message, body, public, work), work)
    except _TooMuchError:
        return _known_words(message, public)


def redact_error(error: E, body: object) -> E:
    """Return the same error, with values of the body redacted in its message."""
    error.args = (redact(str(error), body),)
    return error


class _TooMuchError(Exception):
    """There is more to compare with the message than the event loop has time for."""


class _Work:
    def __init__(self) -> None:
        self._left = MOST_WORK

    def spend(self, units: int) -> None:
        self._left -= units
        if self._left < 0:
            raise _TooMuchError


def _without(message: str, hidden: set[str], work: _Work) -> str:
    """Return the message with each run of characters that belong to the values replaced."""
    covered = bytearray(len(message))
    _cover_long(message, covered, sorted(form for form in hidden if len(form) >= WORD), work)
    _cover_words(message, covered, {form for form in hidden if len(form) < WORD})
    _cover_cut(message, covered, sorted(hidden))
    pieces, end = [], 0
    for run in COVERED.finditer(covered):
        pieces += [message[end : run.start()], REDACTED]
        end = run.end()
    return "".join((*pieces, message[end:]))


def _cover_long(message: str, covered: bytearray, forms: list[str], work: _Work) -> None:
    """Cover, at each place of the message, the longest of the sorted forms that is there.

    If one is there, it is the last that sorts before the rest of the message, or the longest form with which that one
    begins, and so on.
    """
    heads, before = {form[:WORD] for form in forms}, _beginnings(forms)
    for start in range(len(message) - WORD + 1):
        if message[start : start + WORD] not in heads:
            continue
        rest = message[start:]
        found = bisect_right(forms, rest) - 1
        while found >= 0 and not rest.startswith(forms[found]):
            work.spend(1)
            found = before[found]
        if found >= 0:
            _cover(covered, start, start + len(forms[found]))


def _beginnings(forms: list[str]) -> list[int]:
    """Return for each of the sorted forms the place of the longest other one with which it begins, or -1."""
    found: list[int] = []
    open_forms: list[int] = []
    for place, form in enumerate(forms):
        while open_forms and not form.startswith(forms[open_forms[-1]]):
            open_forms.pop()
        found.append(open_forms[-1] if open_forms else -1)
        open_forms.append(place)
    return found


def _cover_words(message: str, covered: bytearray, forms: set[str]) -> None:
    """Cover the short forms where they are whole words; a covered neighbour belongs to another word."""
    heads = {form[:SHORTEST] for form in forms}
    for start in range(len(message) - SHORTEST + 1):
        if message[start : start + SHORTEST] not in heads or not _is_edge(message, covered, start):
            continue
        for end in range(min(start + WORD - 1, len(message)), start + SHORTEST - 1, -1):
            if message[start:end] in forms and _is_edge(message, covered, end):
                _cover(covered, start, end)
                break


def _cover_cut(message: str, covered: bytearray, forms: list[str]) -> None:
    """Cover the end of the message from where it is the beginning of a form: the message may have been cut there."""
    heads = {form[:SHORTEST] for form in forms}
    for start in range(len(message) - SHORTEST + 1):
        if message[start : start + SHORTEST] not in heads:
            continue
        rest = message[start:]
        found = bisect_left(forms, rest)
        if len(rest) < WORD and not _is_edge(message, covered, start):
            continue
        if found < len(forms) and forms[found].startswith(rest):
            _cover(covered, start, len(message))
            return


def _cover(covered: bytearray, start: int, end: int) -> None:
    covered[start:end] = b"\1" * (end - start)


def _is_edge(message: str, covered: bytearray, place: int) -> bool:
    """Return whether no word goes on from the character before this place to the one behind it."""
    if place in (0, len(message)) or covered[place - 1] or covered[place]:
        return True
    return not (_is_of_word(message[place - 1]) and _is_of_word(message[place]))


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character in "_-"


def _known_words(message: str, public: frozenset[str]) -> str:
    """Return the message with all but the known words, outside quotes, and the public names replaced."""
    kept: list[str] = []
    for token in QUOTED_OR_WORD.findall(message):
        bare = token[1:-1] if token[0] == '"' else token[:-1] if token[-1] in ",:;." else token
        known = bare in public or token == REDACTED or (token[0] != '"' and bare in KNOWN_WORDS)
        if known or kept[-1:] != [REDACTED]:
            kept.append(token if known else REDACTED)
    return " ".join(kept)


def _identity(body: object) -> frozenset[str]:
    """Return names and labels, which are not secret; many messages are useless without them."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    if not isinstance(metadata, Mapping):
        return frozenset()
    names = (metadata.get("name"), metadata.get("namespace"), *(metadata.get("labels") or {}).values())
    return frozenset(name for name in names if isinstance(name, str))


def _candidates(message: str, body: object, public: frozenset[str], work: _Work) -> set[str]:
    """Return the forms of private values whose beginning is in the message."""
    beginnings = {message[start : start + SHORTEST] for start in range(len(message) - SHORTEST + 1)}
    return {
        form
        for values in _private(body, work)
        for value in values
        if isinstance(value, str)
        for form in _forms(value, work)
        if form[:SHORTEST] in beginnings and form not in public
    }


def _private(body: object, work: _Work) -> Iterator[Collection[object]]:
    """Yield lists of the values to redact, at any depth; what is no text is no value."""
    remaining = [body]
    while remaining:
        found = remaining.pop()
        if not isinstance(found, (Mapping, list, tuple)):
            continue
        work.spend(1 + len(found))
        if not isinstance(found, Mapping):
            remaining += found
            continue
        for key, value in found.items():
            if key in ("command", "args", "annotations", "data", "stringData"):
                yield _items(value, work)
            elif key == "env" and isinstance(value, (list, tuple)):
                work.spend(len(value))
                yield [item.get("value") for item in value if isinstance(item, Mapping)]
            else:
                remaining.append(value)


def _items(found: object, work: _Work) -> Collection[object]:
    items = found.values() if isinstance(found, Mapping) else found if isinstance(found, (list, tuple)) else (found,)
    work.spend(len(items))
    return items


def _forms(value: str, work: _Work) -> Iterable[str]:
    """Return the forms in which a value may be quoted: literal, a flag's value, one line, JSON-escaped, single lines.

    The message of an error is one line (`ApiError`).
    """
    if len(value) >= PLAIN_CHARACTERS:
        work.spend(len(value) // PLAIN_CHARACTERS)
    given = value.partition("=")[2]
    return (value, given) if _is_plain(value) else _other_forms(value, given, work)


def _other_forms(value: str, given: str, work: _Work) -> Iterator[str]:
    work.spend(OTHER_TEXT + len(value) // OTHER_CHARACTERS)
    lines = value.splitlines() if "\n" in value else ()
    joined = () if value.isprintable() else (one_line(value), one_line(given))
    for form in (value, given, *joined, *(line.strip() for line in lines if len(line.strip()) >= LINE)):
        work.spend(1)
        yield form
        if not _is_plain(form):
            yield json.dumps(form)[1:-1]
            yield json.dumps(form, ensure_ascii=False)[1:-1]


def _is_plain(text: str) -> bool:
    """Return whether the text is the same in every notation: as one line, and in JSON."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text

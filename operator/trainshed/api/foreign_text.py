"""Makes text that others have written fit to be shown: in a log, a condition, an Event or on a terminal.

Such text may be hostile: a line break forges a line of a log, an escape sequence acts on the terminal that shows it,
and a change of the writing direction shows something else than what is there.
"""

from __future__ import annotations

import json
import re
import unicodedata

from .coerce import ELLIPSIS

#: Escape sequences of terminals (ECMA-48), also in their 8-bit form, and unfinished ones: commands, then texts such as
#: titles of windows, then short ones.
ESCAPE_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
#: The colours and other attributes of text (ECMA-48, SGR): the only control sequences that replicas may write, none of
#: them longer than what terminals read.
ATTRIBUTES = re.compile(r"(\x1b\[(?:[0-9]{0,3}[;:]){0,31}[0-9]{0,3}m)")
#: Characters that change the direction of the text around them.
DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

RESET = "\x1b[0m"
#: Columns of a tab.
TAB = 4


def one_line(text: str, most: int | None = None) -> str:
    """Return the text as one line of printable characters, of which at most `most` are kept.

    A line break or other white space becomes a space. Escape sequences and all other characters that are not printable
    are left out: control characters, those without width, and those that change the writing direction.
    """
    shown = text if text.isprintable() else " ".join(_printable(ESCAPE_SEQUENCES.sub("", text)).split())
    return shown if most is None or len(shown) <= most else shown[: most - len(ELLIPSIS)] + ELLIPSIS


def lines(text: str) -> str:
    """Return the text as lines of printable characters; their indentation is kept.

    For what has several lines where it is shown, such as a termination message.
    """
    if text.isprintable():
        return text.strip()
    found = ESCAPE_SEQUENCES.sub("", text).splitlines()
    return "\n".join(_printable(line.expandtabs(TAB)).rstrip() for line in found).strip()


def harmless(line: str, *, colour: bool = False) -> str:
    """Return a line that others have written without what acts on a terminal: control sequences and characters.

    Tabs stay, and with `colour` the colours, which end with the line. Log files have all bytes as they came.
    """
    parts = ATTRIBUTES.split(line)
    text = "".join(
        part if index % 2 else _without_effects(part) for index, part in enumerate(parts) if colour or index % 2 == 0
    )
    return text + RESET if colour and len(parts) > 1 else text


def inert(document: str) -> str:
    """Return a document of which others have written parts without control characters, but for tabs and line ends.

    Only such characters are taken: a sequence that begins in a part may reach into what surrounds it.
    """
    return "".join(mark for mark in document if mark in "\n\t" or not _acts(mark))


def escaped(text: str) -> str:
    """Return the text in one line, with an escape sequence of Python for each character that is not printable."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)


def json_escaped(text: str) -> str:
    """Return JSON with an escape sequence of JSON for each character that is not printable, but for line breaks.

    Such characters are only within strings, so it means the same.
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() or mark == "\n" else json.dumps(mark)[1:-1] for mark in text)


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else " " for mark in text if mark.isprintable() or mark.isspace())


def _without_effects(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(item for item in ESCAPE_SEQUENCES.sub("", text) if item == "\t" or not _acts(item))


def _acts(character: str) -> bool:
    """Return whether a character is a control, separates lines or paragraphs, is half a character, or turns text."""
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in DIRECTIONS

"""Colours and other attributes that a program writes for a terminal (ECMA-48, SGR), as HTML with classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from markupsafe import Markup, escape

from trainshed.api.foreign_text import ATTRIBUTES, harmless

#: The attributes that are shown, by their code, and the codes that end them; 22 ends bold and faint.
ON = {1: "bold", 2: "faint", 3: "italic", 4: "underlined", 9: "struck"}
OFF = {21: ("bold",), 22: ("bold", "faint"), 23: ("italic",), 24: ("underlined",), 29: ("struck",)}
#: The first codes of the eight colours: of the text and behind it, then the bright ones.
TEXT, BEHIND, BRIGHT_TEXT, BRIGHT_BEHIND = 30, 40, 90, 100
#: The codes that begin a colour of a table of 256, or of red, green and blue, and those that end a colour.
MORE_TEXT, MORE_BEHIND, NO_TEXT, NO_BEHIND = 38, 48, 39, 49
BY_NUMBER, BY_PARTS = 5, 2
#: The last of the 16 colours, of the cube of 216 and the greys after it.
LAST_COLOUR, LAST_OF_CUBE, LAST_GREY = 15, 231, 255
#: The number of the first bright colour; how different the parts of a grey may be, the greys by what each is below, and
#: from which part on a colour is bright.
BRIGHT, GREY, BRIGHT_FROM = 8, 32, 192
GREYS = ((48, 0), (144, 8), (208, 7), (1 << 20, 15))


class Attributes(msgspec.Struct, frozen=True):
    """How text is shown: numbers of colours from 0 to 15, None for the usual ones, and names of attributes."""

    text: int | None = None
    behind: int | None = None
    names: frozenset[str] = frozenset()

    @property
    def classes(self) -> str:
        """The classes of CSS, separated by spaces."""
        colours = ((self.text, "ansi-"), (self.behind, "behind-"))
        return " ".join((*sorted(self.names), *(f"{name}{n}" for n, name in colours if n is not None)))


PLAIN = Attributes()


def html(text: str, most: int) -> Markup:
    """Return a line that others have written as HTML, of at most `most` characters and a remark on how many more.

    What acts on a terminal or changes the direction of text is left out, but for colours.
    """
    shown = text[:most]
    found = escape(shown) if shown.isprintable() else _coloured_html(harmless(shown, colour=True))
    if len(text) <= most:
        return found
    return found + Markup('<span class="more"> … and {:,} more characters</span>').format(len(text) - most)


def _coloured_html(text: str) -> Markup:
    now, found = PLAIN, list[Markup]()
    for index, part in enumerate(ATTRIBUTES.split(text)):
        if index % 2:
            now = _after(now, part)
        elif part:
            shown = escape(part)
            found.append(Markup('<span class="{}">{}</span>').format(now.classes, shown) if now != PLAIN else shown)
    return Markup("").join(found)


def _after(now: Attributes, sequence: str) -> Attributes:
    """Return the attributes after a sequence such as `ESC[1;31m`; codes that are not known change nothing."""
    codes = [int(code or 0) for code in sequence[2:-1].replace(":", ";").split(";")]
    left = iter(codes)
    for code in left:
        if code == 0:
            now = PLAIN
        elif code in ON:
            now = msgspec.structs.replace(now, names=now.names | {ON[code]})
        elif code in OFF:
            now = msgspec.structs.replace(now, names=now.names.difference(OFF[code]))
        elif code in (MORE_TEXT, MORE_BEHIND):
            now = _coloured(now, is_text=code == MORE_TEXT, colour=_more(left))
        elif (known := _basic(code)) is not None:
            now = _coloured(now, is_text=known[0], colour=known[1])
    return now


def _coloured(now: Attributes, *, is_text: bool, colour: int | None) -> Attributes:
    return msgspec.structs.replace(now, text=colour) if is_text else msgspec.structs.replace(now, behind=colour)


def _basic(code: int) -> tuple[bool, int | None] | None:
    """Return whether a code is of the text, and its colour; None for one that is not of a colour."""
    if code in (NO_TEXT, NO_BEHIND):
        return code == NO_TEXT, None
    for start, is_text, bright in (
        (TEXT, True, 0),
        (BEHIND, False, 0),
        (BRIGHT_TEXT, True, 8),
        (BRIGHT_BEHIND, False, 8),
    ):
        if start <= code < start + 8:
            return is_text, code - start + bright
    return None


def _more(left: Iterator[int]) -> int | None:
    """Return the colour of 16 that is nearest to one that the codes that follow describe; None if they do not."""
    form = next(left, 0)
    if form == BY_PARTS:
        return _nearest([next(left, 0) for _ in range(3)])
    number = next(left, LAST_GREY + 1) if form == BY_NUMBER else LAST_GREY + 1
    if number <= LAST_COLOUR:
        return number
    if number <= LAST_OF_CUBE:
        number -= LAST_COLOUR + 1
        return _nearest([level * 51 for level in (number // 36, number // 6 % 6, number % 6)])
    return _nearest([8 + (number - LAST_OF_CUBE - 1) * 10] * 3) if number <= LAST_GREY else None


def _nearest(parts: Sequence[int]) -> int:
    """Return the one of 16 colours for red, green and blue from 0 to 255: which of them are high, and how high."""
    high, low = max(parts), min(parts)
    if high - low < GREY:
        return next(colour for limit, colour in GREYS if high < limit)
    bits = sum(1 << place for place, part in enumerate(parts) if part > (high + low) / 2)
    return bits + (BRIGHT if high >= BRIGHT_FROM else 0)

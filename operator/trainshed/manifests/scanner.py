r"""The events of YAML as go.yaml.in/yaml/v2 finds them: PyYAML's scanner, changed where Go's differs.

Go's scanner is that of libyaml 0.1. Unlike PyYAML it accepts tabs between tokens and inside plain scalars, plain
scalars that end with a colon in `[…]` and `{…}`, `\'` in double quotes, and tags with more characters.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from yaml.error import Mark
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner, ScannerError
from yaml.tokens import DirectiveToken, ScalarToken, TagToken

BREAKS = "\r\n\x85\u2028\u2029"
_RUN = re.compile(rf"[^\0 \t{BREAKS}]+")
#: Characters of a plain scalar outside and inside of flow collections; a colon ends it before a blank.
_PLAIN = re.compile(rf"(?:[^\0 \t{BREAKS}:]|:(?![\0 \t{BREAKS}]))+")
_PLAIN_IN_FLOW = re.compile(rf"(?:[^\0 \t{BREAKS}:,?\[\]{{}}]|:(?![\0 \t{BREAKS}]))+")
_INDICATOR = re.compile(rf"(?:---|\.\.\.)[\0 \t{BREAKS}]")
_BLOCK_HEADER = re.compile(rf"(?:([+-])([0-9])?|([0-9])([+-])?)?[ \t]*(?:#[^\0{BREAKS}]*)?(?=[\0{BREAKS}])")
_URI = r"(?:[\w;/?:@&=+$,.!~*'()\[\]-]|%[0-9a-fA-F]{2})"
_TAG = re.compile(rf"!<({_URI}+)>|(![\w-]*!)({_URI}+)|!(?!<|[\w-]*!)({_URI}*)", re.ASCII)
TAB = "a tab stands where spaces are expected"
_SURROGATE = re.compile("[\ud800-\udfff]")


class GoLoader(Reader, Scanner, Parser):
    """The events of a text. PyYAML has the whole text in its buffer, because it is a `str`."""

    ESCAPE_REPLACEMENTS = {  # type: ignore[misc] # noqa: RUF012 - PyYAML means subclasses to change it
        **{name: text for name, text in Scanner.ESCAPE_REPLACEMENTS.items() if name != "/"},
        "'": "'",
    }

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text.removeprefix("\ufeff"))
        Scanner.__init__(self)
        Parser.__init__(self)

    def forward(self, length: int = 1) -> None:
        """Move on. As in Go, a byte order mark has a width of one column."""
        marks = self.buffer.count("\ufeff", self.pointer, self.pointer + length)
        super().forward(length)
        if marks and self.column:
            self.column += marks

    def _skip(self, length: int) -> None:
        """Move on by characters that are no line breaks, which `forward` would look for one by one."""
        self.pointer += length
        self.index += length
        self.column += length

    def scan_to_next_token(self) -> None:
        """Skip blanks, comments and line breaks; tabs wherever no indentation is expected."""
        while True:
            while (found := self.peek()) == " " or (
                found == "\t" and (self.flow_level > 0 or not self.allow_simple_key)
            ):
                self._skip(1)
            if self.peek() == "#":
                while self.peek() not in f"\0{BREAKS}":
                    self._skip(1)
            if not self._line_break():
                return
            if not self.flow_level:
                self.allow_simple_key = True

    def _line_break(self) -> str:
        found: str = self.scan_line_break()  # type: ignore[no-untyped-call]
        return found

    def scan_directive(self) -> DirectiveToken:
        """Refuse directives: kubectl takes the line for a document of its own."""
        raise self._problem("directives such as %YAML and %TAG are not supported by kubectl")

    def scan_plain(self) -> ScalarToken:
        """Return a plain scalar, of one or several lines."""
        text: list[str] = []
        blanks, broken = "", False
        start = end = self.get_mark()
        indent = self.indent + 1
        allowed = _PLAIN_IN_FLOW if self.flow_level else _PLAIN
        while self.peek() != "#" and not (self.column == 0 and _INDICATOR.match(self.buffer, self.pointer)):
            if found := allowed.match(self.buffer, self.pointer):
                text += blanks, found[0]
                blanks, broken = "", False
                self._skip(len(found[0]))
                end = self.get_mark()
            if self.peek() not in f" \t{BREAKS}":
                break
            between, new_line = self._blanks(indent, broken=broken)
            blanks, broken = blanks + between, broken or new_line
            if not self.flow_level and self.column < indent:
                break
        if broken:
            self.allow_simple_key = True
        return ScalarToken("".join(text), plain=True, start_mark=start, end_mark=end)

    def _blanks(self, indent: int, *, broken: bool) -> tuple[str, bool]:
        """Skip blanks and line breaks in a plain scalar; return what they mean, and whether there was a line break."""
        spaces, breaks = "", ""
        while (found := self.peek()) in f" \t{BREAKS}":
            if found not in " \t":
                breaks += self._line_break()
                broken = True
                continue
            if broken and found == "\t" and self.column < indent:
                raise self._problem(TAB)
            spaces += "" if broken else found
            self._skip(1)
        if not broken:
            return spaces, False
        if breaks[0] != "\n":
            return breaks, True
        return breaks[1:] or " ", True

    def scan_flow_scalar(self, style: str) -> ScalarToken:
        """Return a scalar in quotes; an escape must be of a character."""
        token: ScalarToken
        try:
            token = super().scan_flow_scalar(style)
        except (ValueError, OverflowError):
            raise self._problem("an escape in double quotes is no character of Unicode") from None
        if _SURROGATE.search(token.value):
            raise self._problem("an escape in double quotes is half of a surrogate pair")
        return token

    def scan_block_scalar_indicators(self, start_mark: Mark) -> tuple[bool | None, int | None]:
        """Return whether trailing line breaks are kept or dropped, and the indentation; move to the end of the line."""
        del start_mark
        found = _BLOCK_HEADER.match(self.buffer, self.pointer)
        digit = found and (found[2] or found[3])
        if not found or digit == "0":
            raise self._problem("after | or > there must be no more than + or -, a digit from 1 to 9, and a comment")
        self._skip(len(found[0]))
        sign = found[1] or found[4]
        return (sign == "+" if sign else None), (int(digit) if digit else None)

    def scan_block_scalar_indentation(self) -> tuple[list[str], int, Mark]:
        """Return the line breaks before the first line with content, and its indentation."""
        found: tuple[list[str], int, Mark] = super().scan_block_scalar_indentation()
        if self.peek() == "\t":
            raise self._problem(TAB)
        return found

    def scan_block_scalar_breaks(self, indent: int) -> tuple[list[str], Mark]:
        """Return the line breaks before the next line with content."""
        found: tuple[list[str], Mark] = super().scan_block_scalar_breaks(indent)
        if self.column < indent and self.peek() == "\t":
            raise self._problem(TAB)
        return found

    def scan_tag(self) -> TagToken:
        """Return a tag: `!<uri>`, `!handle!suffix` or `!suffix`."""
        start = self.get_mark()
        found = _TAG.match(self.buffer, self.pointer)
        if not found or self.buffer[found.end()] not in f"\0 \t{BREAKS}":
            raise self._problem("a tag is malformed")
        self._skip(len(found[0]))
        whole, handle, suffix, local = found.groups()
        if whole:
            value: tuple[str | None, str] = (None, self._unquoted(whole))
        elif handle:
            value = (handle, self._unquoted(suffix))
        else:
            value = ("!", self._unquoted(local)) if local else (None, "!")
        return TagToken(value, start, self.get_mark())

    def _unquoted(self, text: str) -> str:
        try:
            return unquote_to_bytes(text).decode()
        except UnicodeDecodeError:
            raise self._problem("a tag has %-escapes that are not UTF-8") from None

    def _problem(self, what: str) -> ScannerError:
        return ScannerError(None, None, what, self.get_mark())

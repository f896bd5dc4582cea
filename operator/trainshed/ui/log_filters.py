"""Which lines of logs a page shows: the parameters of its URL, with a limit on each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlencode

import msgspec

from trainshed.api.foreign_text import ATTRIBUTES, one_line
from trainshed.api.log_patterns import MAX_EXPRESSION, compiled

#: The lines of all replicas together that a page shows without a script, and the most that one shows at all.
WITHOUT_SCRIPT, MOST_LINES = 500, 10_000
#: The most replicas that an address may name, and the most characters of each, and of a container.
MOST_REPLICAS, MOST_NAME = 64, 253

#: The parameters that are on or off, and the values that mean off.
SWITCHES, OFF = ("regular", "previous", "times"), ("", "0", "off", "false")


class LogFilters(msgspec.Struct, frozen=True):
    """What is shown: of these replicas, all if there are none, the lines in which a text is found.

    `regular` is whether the text is a regular expression in the syntax of RE2. `previous` is whether it is the run of
    each container before its last restart. `times` is whether the time of each line is shown.
    """

    replicas: tuple[str, ...] = ()
    container: str = ""
    text: str = ""
    regular: bool = False
    previous: bool = False
    times: bool = False
    lines: int = WITHOUT_SCRIPT

    @property
    def query(self) -> str:
        """The parameters of an address that shows the same; empty for all."""
        found = [("replica", name) for name in self.replicas]
        found += [(name, getattr(self, name)) for name in ("container", "text") if getattr(self, name)]
        found += [(name, "on") for name in SWITCHES if getattr(self, name)]
        return urlencode(found + ([("lines", str(self.lines))] if self.lines != WITHOUT_SCRIPT else []))


def read(query: Mapping[str, str], replicas: Sequence[str]) -> LogFilters:
    """Return the filters that the parameters of an address ask for; what is too long is cut.

    `replicas` are all values of the parameter that may be repeated.
    """
    lines, is_on = query.get("lines", ""), {name: query.get(name, "") not in OFF for name in SWITCHES}
    is_number = lines.isascii() and lines.isdecimal() and len(lines) <= len(str(MOST_LINES))
    return LogFilters(
        replicas=tuple(dict.fromkeys(name[:MOST_NAME] for name in replicas[:MOST_REPLICAS] if name)),
        container=query.get("container", "")[:MOST_NAME],
        text=query.get("text", "")[:MAX_EXPRESSION],
        lines=max(1, min(int(lines), MOST_LINES)) if is_number else WITHOUT_SCRIPT,
        **is_on,
    )


def matcher(filters: LogFilters) -> tuple[Callable[[str], bool] | None, str]:
    """Return what tells whether a line is wanted, None if all are, and what is wrong with the expression.

    A text that is not a regular expression is found in capital and small letters.
    """
    if not filters.text:
        return None, ""
    if not filters.regular:
        wanted = filters.text.casefold()
        return lambda line: wanted in ATTRIBUTES.sub("", line).casefold(), ""
    import re2  # noqa: PLC0415 - only expressions of users need it

    try:
        found = compiled(filters.text)
    except (re2.error, UnicodeError) as error:
        said = error.args[0] if error.args else error
        words = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        return None, f"{one_line(filters.text)} is no regular expression of RE2: {one_line(words)}"
    return lambda line: found.search(ATTRIBUTES.sub("", line)) is not None, ""

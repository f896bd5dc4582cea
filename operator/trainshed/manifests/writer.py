"""Documents of YAML that kubectl reads back as they were."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

import yaml
from yaml.resolver import Resolver

from . import scalars

#: Characters that every reader takes as they are.
_SAFE = r"!-~\xa1-\u061b\u061d-\u200a\u2010-\u2027\u2030-\u2065\u206a-\ud7ff\ue000-\ufefe"
#: Characters that change the direction of the text around them on a terminal, and how double quotes have them.
_DIRECTIONS = {
    ord(turn): f"\\u{ord(turn):04x}"
    for turn in "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
}
#: Texts with other characters, or with blanks that a reader may drop, are written in double quotes with escapes.
_LINES = re.compile(rf"[{_SAFE}](?:[\n \xa0{_SAFE}]*[!-~\n])?")
_BLANKS_AT_END = re.compile(r" (?:\n|\Z)")


class _Dumper(yaml.SafeDumper):
    """Writes texts so that YAML 1.1, YAML 1.2 and kubectl read them as texts, and no value as an alias."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True: repeated values are written in full, as kubectl does."""
        del data
        return True


def write(documents: Iterable[Any]) -> str:
    """Return documents of YAML, each after `---`; the keys of mappings keep their order."""
    text = yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, explicit_start=True, width=sys.maxsize, allow_unicode=True
    )
    return text.translate(_DIRECTIONS)  # texts that have one are in double quotes


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(scalars.STR, text, style=_style(text))


def _style(text: str) -> str | None:
    """Return the style of a text: a block for several lines, quotes where a reader would see another type."""
    if not _LINES.fullmatch(text) or _BLANKS_AT_END.search(text):
        return '"'
    if "\n" in text:
        return "|"
    return None if scalars.is_text(text) and _is_text_for_others(text) else '"'


def _is_text_for_others(text: str) -> bool:
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return tag == scalars.STR


_RESOLVER = Resolver()
_Dumper.add_representer(str, _text)

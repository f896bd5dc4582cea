"""SVG as text: ten thousand bars in the time of a glance, which elements of htpy take five times as long for."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

#: The attributes of an element; their values are escaped.
Attributes = Mapping[str, object]


class Markup(str):
    """Text of elements, in which all that others have written is escaped; htpy takes it as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return it as HTML."""
        return str(self)


def tag(name: str, attributes: Attributes, *children: Markup) -> Markup:
    """Return an element; name and keys are the page's own, the values may be those of others."""
    found = "".join([f' {key}="{escape(str(value))}"' for key, value in attributes.items()])
    return Markup(f"<{name}{found}>{''.join(children)}</{name}>")


def titled(text: str) -> Markup:
    """Return what an element says when it is pointed at."""
    return Markup(f"<title>{escape(text)}</title>")

"""A page as a reader has it."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """The words of a page in their order, and its elements with their attributes."""

    def __init__(self, html: object) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._words: list[str] = []
        self.feed(str(html))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self._words.append(data)

    @property
    def text(self) -> str:
        """The words, with one space between them."""
        return " ".join(" ".join(self._words).split())

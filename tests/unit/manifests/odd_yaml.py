"""Scalars, documents and values for the comparison with kubectl's YAML: a table, and random ones from a seed."""

from __future__ import annotations

import json
import random

from support.kubeyaml import table

#: Texts that a reader of YAML may take for something else than a text, or that are hard to write.
SCALARS = tuple(row["text"] for row in table())

_TAGS = (
    "!!str",
    "!!int",
    "!!float",
    "!!bool",
    "!!null",
    "!!timestamp",
    "!!binary",
    "!x",
    "!",
    "!!set",
    "!<tag:yaml.org,2002:int>",
)
_WORDS = (
    "a",
    "b",
    "c",
    "name",
    "spec",
    "x y",
    "-a",
    "a:b",
    "a-b",
    "y",
    "1",
    "1.5",
    "null",
    "'q'",
    '"d"',
    "~",
    "<<",
    "é",
    "a.b/c",
)


class Documents:
    """Random documents of YAML, most of them valid; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._anchors: list[str] = []

    def one(self) -> str:
        """Return a document."""
        self._anchors = []
        choose = self._random.random()
        head = self._random.choice(("", "", "", "---\n", "# c\n", "--- # c\n", "\n", "---\n# c\n\n"))
        body = self._flow(0) if choose < 0.2 else self._block(0, 0)
        text = head + body.lstrip("\n") + self._random.choice(("", "\n", "\n\n", "\n# end\n", "\n...\n", " # c\n"))
        if self._random.random() < 0.1:
            text = self._damaged(text)
        return text.replace("\n", "\r\n") if self._random.random() < 0.05 else text

    def file(self) -> str:
        """Return a file of some documents of YAML, or values of JSON, most of them valid."""
        parts = [self._file_part() for _ in range(self._random.randrange(4))]
        return self._random.choice(("", "", "\n", "\ufeff", "---\n", "# c\n---\n")) + "".join(parts)

    def _file_part(self) -> str:
        choice = self._random.random()
        if choice < 0.4:
            text = json.dumps({"a": self.value()}, indent=self._random.choice((None, 2)))
        elif choice < 0.9:
            text = "\n".join(f"{self._random.choice(_WORDS)}: {self._random.choice(_WORDS)}" for _ in range(2))
        else:
            text = self.one()
        ends = (*["\n---\n"] * 20, "\n--- # c\n", "\n---\n---\n", "\n", "", " ", "\n---x\n", "\n...\n---\n", "\n---")
        return text + self._random.choice(ends)

    def value(self, depth: int = 0) -> object:
        """Return a value of JSON."""
        kind = self._random.random()
        if depth > 4 or kind < 0.55:
            return self._leaf()
        if kind < 0.8:
            return {self._text(): self.value(depth + 1) for _ in range(self._random.randrange(4))}
        return [self.value(depth + 1) for _ in range(self._random.randrange(4))]

    def _leaf(self) -> object:
        choice = self._random.randrange(12)
        if choice > 4:
            return self._text()
        number = self._random.choice((1, -1)) * self._random.choice(
            (0, 1, 10**6, 2**31, 2**53 + 1, 2**63 - 1, 1.5, 1e-7, 1e21, 2.5e300)
        )
        return (None, True, False, self._random.randrange(-1000, 1000), number)[choice]

    def _text(self) -> str:
        choice = self._random.random()
        if choice < 0.5:
            return self._random.choice(SCALARS)
        if choice < 0.8:
            pieces = (
                "a",
                "B",
                "1",
                "0",
                "-",
                ":",
                " ",
                "\n",
                "#",
                "'",
                '"',
                "é",
                ",",
                "[",
                "}",
                "e",
                ".",
                "_",
                "x",
                "?",
                "\t",
                "%",
                "\\",
                "🚀",
            )
            return "".join(self._random.choice(pieces) for _ in range(self._random.randrange(9)))
        return self._random.choice(_WORDS)

    def _plain(self) -> str:
        text = self._text()
        return text if "\n" not in text and "\r" not in text else "plain"

    def _scalar(self, indent: int, *, flow: bool = False, key: bool = False) -> str:
        style = self._random.random()
        if style < 0.55:
            text = self._plain()
            if not key and self._random.random() < 0.08:
                gap = self._random.choice((" ", "\n", "\n\n ", "\t", " \n"))
                text = f"{text}{gap}{' ' * indent}{self._plain()}"
            return text
        if style < 0.68:
            return "'" + self._text().replace("'", "''").replace("\n", f"\n\n{' ' * indent}") + "'"
        if style < 0.85 or flow or key:
            return self._double(indent)
        return self._literal(indent)

    def _double(self, indent: int) -> str:
        choice = self._random.random()
        if choice < 0.6:
            return json.dumps(self._text(), ensure_ascii=self._random.random() < 0.5)
        pieces = (
            "a",
            " ",
            "\\n",
            "\\t",
            "\\x41",
            "\\u00e9",
            "\\U0001F680",
            "\\'",
            "'",
            "\\/",
            "\\\\",
            "\\0",
            "\\e",
            "\\ ",
            "\\_",
            "\\N",
            "\\L",
            "\\q",
        )
        pieces += (
            "\\\n" + " " * indent,
            "\n" + " " * indent,
            "\n\n " + " " * indent,
            "\\ud800",
            "\\x4",
            "\t",
            "#",
            ": ",
            "- ",
        )
        return '"' + "".join(self._random.choice(pieces) for _ in range(self._random.randrange(7))) + '"'

    def _literal(self, indent: int) -> str:
        pad = " " * indent
        lines = [
            self._random.choice(("", "a", " a", "  b", "\tc", "a b ", "# no comment", "- a: b", "é", "---x", "x\ty"))
            for _ in range(self._random.randrange(5))
        ]
        header = self._random.choice("|>") + self._random.choice(
            ("", "", "-", "+", "2", "2-", "+1", "1", "0", "-2", "9")
        )
        header += self._random.choice(("", "", " ", " # c", "\t", "\t# c", "#c"))
        more = self._random.choice(("", "", " ", "  "))
        return header + "".join(f"\n{pad}{more}{line}" if line else "\n" for line in lines)

    def _properties(self) -> str:
        choice = self._random.random()
        if choice < 0.06:
            self._anchors.append(self._random.choice(("a", "b", "x1", "a-b")))
            return f"&{self._anchors[-1]} "
        return f"{self._random.choice(_TAGS)} " if choice < 0.14 else ""

    def _alias(self) -> str:
        return f"*{self._random.choice(self._anchors)}" if self._anchors and self._random.random() < 0.97 else "*z"

    def _key(self, indent: int, *, flow: bool = False) -> str:
        choice = self._random.random()
        if choice < 0.5:
            return self._random.choice(_WORDS)
        if choice < 0.53:
            return f"{self._alias()} "
        return self._properties() * (choice < 0.7) + self._scalar(indent, flow=flow, key=True)

    def _flow(self, depth: int) -> str:
        choice = self._random.random()
        if depth > 3 or choice < 0.4:
            return self._properties() + self._scalar(1, flow=True)
        if choice < 0.43:
            return self._alias()
        gap = self._random.choice(("", " ", "\n ", "  ", "\t", " # c\n "))
        items = range(self._random.randrange(4))
        comma = self._random.choice((",", ", ", " ,", ",\n  "))
        if choice < 0.7:
            listed = [
                self._flow(depth + 1)
                if self._random.random() < 0.9
                else f"{self._key(1, flow=True)}: {self._flow(depth + 1)}"
                for _ in items
            ]
            return f"{self._properties()}[{gap}{comma.join(listed)}{self._random.choice(('', '', ','))}{gap}]"
        colon = self._random.choice((": ", ": ", ":", " : ", ":\n  ", ""))
        pairs = [f"{self._key(1, flow=True)}{colon}{self._flow(depth + 1)}" for _ in items]
        return f"{self._properties()}{{{gap}{comma.join(pairs)}{gap}}}"

    def _block(self, indent: int, depth: int) -> str:
        """Return a node that begins on a line of its own, or after an indicator."""
        choice = self._random.random()
        if depth > 3 or (depth and choice < 0.45):
            return self._properties() + self._scalar(indent + 1)
        if depth and choice < 0.5:
            return self._alias()
        if choice < 0.6:
            return self._flow(depth)
        pad = " " * indent
        comment = self._random.choice(("", "", "", " # c", "  "))
        lines = []
        if choice < 0.75:
            for _ in range(self._random.randrange(1, 4)):
                space = self._random.choice((" ", " ", "  ", "\t", f"{comment}\n{pad}  "))
                lines.append(f"{pad}-{space}{self._block(indent + 2, depth + 1).lstrip(' ' if depth else '')}")
        else:
            lines = [f"{pad}{self._pair(indent, depth)}" for _ in range(self._random.randrange(1, 5))]
        return (f"{self._properties().strip()}{comment}\n" if depth else "") + "\n".join(lines)

    def _pair(self, indent: int, depth: int) -> str:
        choice = self._random.random()
        if choice < 0.06 and self._anchors:
            return f"<<: {self._random.choice((self._alias(), f'[{self._alias()}]', '{m: 1, a: 2}'))}"
        if choice < 0.09:
            return f"? {self._key(indent)}\n{' ' * indent}: {self._block(indent + 2, depth + 1)}"
        colon = self._random.choice((": ", ": ", ": ", ":  ", " : ", ":\t", ":"))
        return f"{self._key(indent)}{colon}{self._block(indent + 2, depth + 1)}"

    def _damaged(self, text: str) -> str:
        at = self._random.randrange(len(text) + 1)
        piece = self._random.choice(
            (
                " ",
                "\n",
                ":",
                "- ",
                "\t",
                "]",
                "}",
                "'",
                '"',
                "#",
                "&",
                "*a",
                "!",
                "|",
                ",",
                "?",
                "\x07",
                "%",
                "---",
                "\ufeff",
            )
        )
        return text[:at] + piece + text[at + self._random.randrange(2) :]

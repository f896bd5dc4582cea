"""The picture of a local run: what it printed in a terminal, shortened at each "…"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .drawing import picture, words

#: What the command printed on 2026-11-29; lines that are longer than the picture are broken.
RECORDED = Path(__file__).with_name("recorded_run.txt")
#: The height of a line and the width of a character, in pixels.
LINE, CHARACTER = 21, 7.8
PREFIX = re.compile(r"(?P<replica>worker-\d|job| )\s*\| ")
COLOURS = {"worker-0": "first", "worker-1": "second"}
STYLE = """<style>
.line { font: 13px ui-monospace, monospace; white-space: pre; }
.command { font-weight: 600; } .fault { fill: #c62828; font-weight: 600; } .dim { fill: #546e7a; }
.first { fill: #2e7d32; } .second { fill: #00728f; }
</style>"""


def local_run() -> str:
    """Draw a run of which one worker is killed, its restart, and its end."""
    lines = RECORDED.read_text().splitlines()
    width = round(40 + CHARACTER * max(map(len, lines)))
    parts = [part for number, line in enumerate(lines) for part in _drawn(24 + LINE * number, line)]
    return picture((width, 30 + LINE * len(lines)), "What a local run prints", STYLE, *parts)


def _drawn(y: int, line: str) -> Iterator[str]:
    prefix = PREFIX.match(line)
    if not prefix:
        style = "command" if line.startswith("$") else "fault" if line.startswith("--fail") else ""
        yield words((20, y), line, f"line {style}".strip(), "start")
        return
    style = COLOURS.get(prefix["replica"], "dim")
    yield words((20, y), prefix[0], f"line {style}", "start")
    if style == "dim" and ("Restarting" in line or prefix["replica"] == " "):
        style = "fault"
    text = "line" if style in COLOURS.values() else f"line {style}"
    yield words((20 + CHARACTER * prefix.end(), y), line[prefix.end() :], text, "start")

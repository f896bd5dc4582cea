"""The picture of a replay: what the command prints about a job whose worker is killed, decided by the planner."""

from __future__ import annotations

from support.decided import FAILED, JOB, RUNS
from support.replace import replace
from trainshed import plan as planner
from trainshed.cli.replay import text
from trainshed.decisions.recording import Encoder, recordings
from trainshed.decisions.steps import about_pod, steps, why_deleted

from .drawing import picture, words

#: The height of a line, the characters of one, and the width of the picture.
LINE, LONGEST, WIDTH = 22, 122, 1020
STYLE = """<style>
.line { font: 13px ui-monospace, monospace; white-space: pre; }
.rule { fill: #1565c0; font-weight: 600; } .fact { fill: #6a1b9a; } .action { fill: #2e7d32; }
</style>"""
POD = f"{JOB.name}-worker-1"


def replay() -> str:
    """Draw what a replay prints about the pod that was killed and replaced."""
    encoder = Encoder("1.0")
    gone = replace(FAILED, pods=FAILED.pods[:2], now=FAILED.now)
    lines = [encoder.line(one, planner.plan(one)) for one in (RUNS, FAILED, gone)]
    (found,) = recordings(lines)
    chosen = about_pod([*steps(found.decisions)], POD)[:1]
    printed = [
        f"$ trainshed replay {JOB.name} --run FOLDER --pod {POD}",
        *text(found, chosen, why_deleted(found.decisions, POD)),
    ]
    rows = [
        words((20, 24 + LINE * number), line, f"line {_style(line)}".strip(), "start")
        for number, line in enumerate(part for line in printed for part in _wrapped(line))
    ]
    return picture((WIDTH, 30 + LINE * len(rows)), "What a replay prints", STYLE, *rows)


def _style(line: str) -> str:
    return next((word for word in ("rule", "fact", "action") if line.startswith(f"  {word}")), "")


def _wrapped(line: str) -> list[str]:
    """Return a line in parts that fit."""
    parts = []
    while len(line) > LONGEST:
        head, _, _ = line[:LONGEST].rpartition(" ")
        parts.append(head)
        line = f"{'':<9}{line[len(head) + 1 :]}"
    return [*parts, line]

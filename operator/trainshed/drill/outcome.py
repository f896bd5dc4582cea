"""The report of a drill: text, Markdown, JSON, and JUnit's XML for CI."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring  # nosec B405 - nothing is parsed

import msgspec

from trainshed.api.foreign_text import one_line
from trainshed.views import markdown
from trainshed.views.post_mortem import Table

from .verdict import FaultVerdict, Grade

#: The columns of a report, and what stands in one of which nothing is known.
HEADER = (
    *("Fault", "Result", "At step", "Went on at", "Steps lost", "Seconds", "Loss off by", "SIGTERM"),
    "What happened",
)
UNKNOWN = "-"


class DrillOutcome(msgspec.Struct, frozen=True):
    """What a drill has shown. `base` are sentences about the run without a fault, `kept` is where the logs are."""

    job: str
    base: tuple[str, ...]
    verdicts: tuple[FaultVerdict, ...]
    seconds: float
    kept: str = ""

    @property
    def grade(self) -> Grade:
        """The worst of all verdicts."""
        found = {verdict.grade for verdict in self.verdicts}
        return next((grade for grade in (Grade.FAILED, Grade.UNSEEN) if grade in found), Grade.PASSED)


def described(verdict: FaultVerdict) -> Iterator[str]:
    """Yield the lines that say what a fault has shown."""
    first, *others = verdict.sentences
    yield f"{verdict.grade.upper():<9} {verdict.fault}: {first}"
    yield from (f"{'':<10}{text}" for text in others)


def conclusion(outcome: DrillOutcome) -> str:
    """Return what all verdicts mean, in a sentence."""
    counts = Counter(verdict.grade for verdict in outcome.verdicts)
    total = len(outcome.verdicts)
    if outcome.grade is Grade.PASSED:
        survived = "the fault" if total == 1 else f"all {total} faults"
        return f"{outcome.job} has survived {survived}, in {outcome.seconds:.0f} s"
    parts = [
        f"{counts[grade]} of {total} {word}"
        for grade, word in ((Grade.FAILED, "failed"), (Grade.UNSEEN, "could not be seen"))
        if counts[grade]
    ]
    verb = "has not survived" if counts[Grade.FAILED] else "was not seen to survive"
    causes = ", ".join(dict.fromkeys(str(verdict.cause) for verdict in outcome.verdicts if verdict.cause))
    return f"{outcome.job} {verb} this drill: {' and '.join(parts)} ({causes})"


def as_text(outcome: DrillOutcome) -> Iterator[str]:
    """Yield the last lines of a drill whose verdicts were printed already."""
    yield ""
    yield conclusion(outcome)
    advice = dict.fromkeys((verdict.cause, verdict.advice) for verdict in outcome.verdicts if verdict.advice)
    yield from (f"  {cause}: {text}" for cause, text in advice)
    if outcome.kept:
        yield f"logs and checkpoints of each run: {outcome.kept}"


def as_markdown(outcome: DrillOutcome) -> str:
    """Return the report as Markdown, such as for the summary of a CI run."""
    blocks = [f"# {markdown.text(conclusion(outcome))}"]
    blocks.append("\n".join(f"- {markdown.text(text)}" for text in outcome.base))
    blocks += markdown.table(Table("Faults", HEADER, tuple(map(_row, outcome.verdicts))))
    return markdown.document(blocks)


def _row(verdict: FaultVerdict) -> tuple[str, ...]:
    said = "; ".join(verdict.sentences) + (f"; advice: {verdict.advice}" if verdict.advice else "")
    found = (verdict.at_step, verdict.resumed_at, verdict.lost_steps, verdict.seconds)
    cells = (UNKNOWN if value is None else f"{value:g}" for value in found)
    loss = UNKNOWN if verdict.loss is None else f"{verdict.loss:.1%}"
    return (verdict.fault, verdict.grade, *cells, loss, verdict.sigterm or UNKNOWN, said)


def as_json(outcome: DrillOutcome) -> str:
    """Return the report for programs; a loss that is no number is null."""
    return json.dumps({"result": outcome.grade, **_plain(outcome)}, indent=2)


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON
    found = msgspec.to_builtins(value)
    for verdict in found["verdicts"]:
        if verdict["loss"] is not None and not math.isfinite(verdict["loss"]):
            verdict["loss"] = None
    return found


def as_junit(outcome: DrillOutcome) -> str:
    """Return the report as XML of JUnit: a fault that was not seen is an error, not a success."""
    counts = Counter(verdict.grade for verdict in outcome.verdicts)
    head = {"name": f"drill of {outcome.job}", "tests": str(len(outcome.verdicts)), "time": str(outcome.seconds)}
    head |= {"failures": str(counts[Grade.FAILED]), "errors": str(counts[Grade.UNSEEN])}
    suite = Element("testsuite", head)
    for verdict in outcome.verdicts:
        case = SubElement(suite, "testcase", classname=f"drill.{one_line(outcome.job)}", name=verdict.fault)
        text = one_line("; ".join((*verdict.sentences, verdict.advice)).rstrip("; "))
        if verdict.grade is not Grade.PASSED:
            kind = "failure" if verdict.grade is Grade.FAILED else "error"
            SubElement(case, kind, type=str(verdict.cause), message=text)
        SubElement(case, "system-out").text = text
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(suite, encoding="unicode") + "\n"

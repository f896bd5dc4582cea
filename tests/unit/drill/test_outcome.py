"""The report of a drill, for people and for CI."""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree as ET

import pytest

from trainshed.drill.outcome import DrillOutcome, as_json, as_junit, as_markdown, as_text, described
from trainshed.drill.verdict import Cause, FaultVerdict, Grade

PASSED = FaultVerdict("kill-rank", Grade.PASSED, Cause.NONE, ("job-worker-0 was killed",), "", 30, 26, 5, 1.2, 0.004)
FAILED = FaultVerdict(
    "evict", Grade.FAILED, Cause.LOSS_JUMPS, ("it was evicted", "a | <b> \x1b[31m & 'c'"), "save more", loss=math.nan
)
UNSEEN = FaultVerdict("oom", Grade.UNSEEN, Cause.NEVER_CAME, ("the job was over",))


def outcome(*verdicts: FaultVerdict, kept: str = "") -> DrillOutcome:
    return DrillOutcome("PyTorchJob ml/mnist", ("without a fault: steps 1 to 60",), verdicts, 12.34, kept)


@pytest.mark.parametrize(
    ("verdicts", "grade", "said"),
    [
        ((PASSED,), Grade.PASSED, "PyTorchJob ml/mnist has survived the fault, in 12 s"),
        (
            (PASSED, UNSEEN),
            Grade.UNSEEN,
            "was not seen to survive this drill: 1 of 2 could not be seen",
        ),
        (
            (FAILED, UNSEEN, FAILED),
            Grade.FAILED,
            "has not survived this drill: 2 of 3 failed and 1 of 3 could not be seen (LossJumps, FaultNeverCame)",
        ),
    ],
)
def test_the_worst_verdict_decides(verdicts, grade, said):
    assert outcome(*verdicts).grade is grade
    lines = [*as_text(outcome(*verdicts, kept="/logs"))]
    assert said in lines[1]
    assert lines[-1] == "logs and checkpoints of each run: /logs"
    assert ("  LossJumps: save more" in lines) == (FAILED in verdicts)


def test_a_verdict_has_a_line_for_each_sentence():
    assert [*described(FAILED)] == ["FAILED    evict: it was evicted", f"          {FAILED.sentences[1]}"]


def test_junit_has_failures_and_what_was_not_seen_as_errors():
    suite = ET.fromstring(as_junit(outcome(PASSED, FAILED, UNSEEN)).encode())
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    assert [[child.tag for child in case] for case in suite] == [
        ["system-out"],
        ["failure", "system-out"],
        ["error", "system-out"],
    ]
    failure = suite.find(".//failure")
    assert failure is not None
    assert (failure.get("type"), failure.get("message")) == ("LossJumps", "it was evicted; a | <b> & 'c'; save more")


def test_markdown_shows_texts_of_others_as_they_are():
    text = as_markdown(outcome(PASSED, FAILED))
    assert text.startswith("# PyTorchJob ml/mnist has not survived this drill: 1 of 2 failed (LossJumps)\n")
    assert "| kill-rank | passed | 30 | 26 | 5 | 1.2 | 0.4% |" in text
    assert r"a \| \<b\> \& 'c'" in text


def test_json_is_json_whatever_the_loss_is():
    found = json.loads(as_json(outcome(PASSED, FAILED)), parse_constant=pytest.fail)
    assert (found["result"], found["seconds"]) == ("failed", 12.34)
    assert [verdict["loss"] for verdict in found["verdicts"]] == [0.004, None]
    assert found["verdicts"][0]["resumedAt"] == 26

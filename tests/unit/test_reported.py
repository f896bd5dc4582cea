"""Each input of tests/reported has a test with the mark `reported`, and each mark names an input."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MARK = re.compile(r"pytest\.mark\.reported\(([^)]*)\)")


def test_every_input_has_a_test():
    files = {path.stem for path in (TESTS / "reported").glob("*.yaml")}
    texts = (path.read_text() for path in TESTS.rglob("test_*.py"))
    marked = {name for text in texts for mark in MARK.findall(text) for name in re.findall(r'"([^"]+)"', mark)}
    assert marked == files

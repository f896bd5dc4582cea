"""Each row of the fault matrix (tests/chaos/matrix.toml) names existing tests and runs, or a reason for having none."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
MATRIX = TESTS / "chaos" / "matrix.toml"
MAKEFILE = TESTS.parent / "Makefile"
#: The families of faults, from crashes (A) to the admission of other controllers (K), and their numbers of rows.
FAMILIES = {"A": 18, "B": 19, "C": 14, "D": 10, "E": 5, "F": 4, "G": 6, "H": 15, "I": 13, "J": 18, "K": 4}
NUMBERS = [f"{letter}{count}" for letter, size in FAMILIES.items() for count in range(1, size + 1)]
#: `shown` has tests (file::function below tests/) and runs (`make ...`); `but` is the part that they leave open.
KEYS = {"fault", "holds", "shown", "not_here", "but"}
TEST = "reliability/test_matrix.py::test_rows_are_complete_and_in_order"


def problems(row: dict) -> Iterator[str]:
    """What is wrong with a row."""
    if not {"fault", "holds"} <= row.keys() <= KEYS:
        yield f"has the keys {sorted(row)}"
    if bool(row.get("shown")) == bool(row.get("not_here")):
        yield "needs either `shown` or `not_here`"
    if row.get("but") and not row.get("shown"):
        yield "has `but` without `shown`"
    yield from (f"names {name}, which does not exist" for name in row.get("shown", ()) if not exists(name))


def exists(name: str) -> bool:
    if run := re.fullmatch(r"make ([a-z-]+)", name):
        return f"\n{run[1]}:" in MAKEFILE.read_text()
    file, _, test = name.partition("::")
    return test in functions(TESTS / file)


@cache
def functions(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text()) if file.is_file() else ast.Module([], [])
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_rows_are_complete_and_in_order() -> None:
    assert list(tomllib.loads(MATRIX.read_text())) == NUMBERS


def test_every_row_names_existing_tests_or_a_reason() -> None:
    rows = tomllib.loads(MATRIX.read_text())
    assert [f"{number} {problem}" for number, row in rows.items() for problem in problems(row)] == []


@pytest.mark.parametrize(
    ("row", "mistakes"),
    [
        ({"not_here": "a reason"}, 0),
        ({"shown": [TEST, "make check"]}, 0),
        ({"shown": [TEST.replace("complete", "nothing")]}, 1),
        ({"shown": ["nowhere/test_it.py::test_it"]}, 1),
        ({"shown": ["make haste"]}, 1),
        ({"shown": ["make check"], "not_here": "a reason"}, 1),
        ({}, 1),
        ({"not_here": "a reason", "but": "not all"}, 1),
        ({"not_here": "a reason", "typo": ""}, 1),
    ],
)
def test_mistakes_in_a_row_are_found(row: dict, mistakes: int) -> None:
    assert len(list(problems({"fault": "a fault", "holds": "what holds"} | row))) == mistakes

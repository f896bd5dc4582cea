"""The fault matrix, and the mistakes in its rows."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
FILE = TESTS / "chaos" / "matrix.toml"
#: The families of faults: title and number of rows.
FAMILIES = {
    "A": ("Crashes", 18),
    "B": ("Responses of the API server", 19),
    "C": ("Watches and caches", 14),
    "D": ("API server and etcd", 10),
    "E": ("Network", 5),
    "F": ("Clocks", 4),
    "G": ("Leaders and versions", 6),
    "H": ("Pods and nodes", 15),
    "I": ("Users", 13),
    "J": ("Invalid or hostile input", 18),
    "K": ("Admission of other controllers", 4),
}
NUMBERS = tuple(f"{letter}{count}" for letter, (_, size) in FAMILIES.items() for count in range(1, size + 1))
TEST = re.compile(r"(?P<file>[\w/]+\.py)::(?P<test>test_\w+)")
RUN = re.compile(r"make (?P<target>[a-z-]+)")


@dataclass(frozen=True, slots=True)
class Row:
    """One fault: what must hold, and the tests (`file::function` below tests/) and runs (`make ...`) that show it.

    `not_here` is the reason why no test shows it, `but` the part that the tests leave open.
    """

    number: str
    fault: str
    holds: str
    shown: tuple[str, ...] = ()
    not_here: str = ""
    but: str = ""


def rows(text: str) -> tuple[Row, ...]:
    """Parse a matrix; raise `TypeError` for an unknown key in a row."""
    found = tomllib.loads(text)
    return tuple(Row(number, **row | {"shown": tuple(row.get("shown", ()))}) for number, row in found.items())


def problems(found: tuple[Row, ...]) -> tuple[str, ...]:
    """Return one sentence for each mistake in these rows."""
    numbers = tuple(row.number for row in found)
    order = () if numbers == NUMBERS else (f"the rows are not {NUMBERS[0]} to {NUMBERS[-1]}, each once, in order",)
    return (*order, *(f"{row.number} {problem}" for row in found for problem in _problems(row)))


def _problems(row: Row) -> Iterator[str]:
    if bool(row.shown) == bool(row.not_here):
        yield "needs either `shown` or `not_here`"
    if row.but and not row.shown:
        yield "has `but` without `shown`"
    for name in row.shown:
        if not (_is_test(name) or _is_run(name)):
            yield f"names {name}, which does not exist"


def _is_test(name: str) -> bool:
    match = TEST.fullmatch(name)
    return match is not None and match["test"] in _tests(TESTS / match["file"])


def _is_run(name: str) -> bool:
    match = RUN.fullmatch(name)
    return match is not None and f"\n{match['target']}:" in _makefile()


@cache
def _tests(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text()) if file.is_file() else ast.Module([], [])
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def _makefile() -> str:
    return (TESTS.parent / "Makefile").read_text()

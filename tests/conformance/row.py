"""A row of the conformance list, and the marks by which a test says which rows it decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import pytest


class Verdict(StrEnum):
    """The relation of a row to v1: the same, or different."""

    SAME = "same"
    DIFFERS = "differs"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Row:
    """One row, `TO-001` and on: the claim in a sentence, and why it is not v1's: D-numbers or a reason."""

    number: str
    verdict: Verdict
    title: str
    because: str = ""


def same(number: str, title: str) -> pytest.MarkDecorator:
    """The test shows that this row is as in v1. A decorator, or among the `marks` of a `pytest.param`."""
    return pytest.mark.row(Row(number, Verdict.SAME, title))


def differs(number: str, difference: str, title: str) -> pytest.MarkDecorator:
    """The test shows a difference from v1, with one number of docs/differences.md or several ("D2, D5")."""
    return pytest.mark.row(Row(number, Verdict.DIFFERS, title, difference))


def not_applicable(number: str, title: str, reason: str) -> Row:
    """Say at the head of a module that nothing outside the operator could show this row, and why."""
    row = Row(number, Verdict.NOT_APPLICABLE, title, reason)
    _untested.append(row)
    return row


def untested() -> tuple[Row, ...]:
    """The rows that the modules imported so far call not applicable."""
    return tuple(_untested)


def marked(marks: object) -> Iterator[Row]:
    """The rows among a test's marks, those of its parameters' cases too."""
    for mark in marks if isinstance(marks, list | tuple) else (marks,):
        if mark.name == "row":
            yield mark.args[0]
        if mark.name == "parametrize":
            for case in mark.args[1]:
                yield from marked(getattr(case, "marks", ()))


_untested: list[Row] = []

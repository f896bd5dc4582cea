"""Which lines a page of logs shows: what an address may ask for, and expressions of users."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from trainshed.ui.log_filters import MOST_LINES, MOST_REPLICAS, WITHOUT_SCRIPT, LogFilters, matcher, read


def test_an_address_asks_for_lines_and_filters_name_that_address():
    filters = read(
        {"text": "loss", "regular": "on", "times": "1", "lines": "2000", "container": "sidecar"},
        ["worker-0", "worker-1"],
    )
    assert filters == LogFilters(("worker-0", "worker-1"), "sidecar", "loss", regular=True, times=True, lines=2_000)
    pairs = parse_qsl(filters.query)
    assert read(dict(pairs), [value for name, value in pairs if name == "replica"]) == filters
    assert LogFilters().query == ""


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ("", WITHOUT_SCRIPT),
        ("x", WITHOUT_SCRIPT),
        ("-1", WITHOUT_SCRIPT),
        ("٣", WITHOUT_SCRIPT),
        ("0", 1),
        ("7", 7),
        ("99999", MOST_LINES),
        ("9" * 5000, WITHOUT_SCRIPT),
    ],
)
def test_the_number_of_lines_is_bounded(lines: str, number: int):
    assert read({"lines": lines}, []).lines == number


def test_what_an_address_says_is_bounded():
    filters = read({"text": "x" * 9_999, "container": "c" * 9_999}, [f"w-{n}" for n in range(1_000)] + ["", "a" * 999])
    assert (len(filters.text), len(filters.container), len(filters.replicas)) == (1_024, 253, MOST_REPLICAS)


@pytest.mark.parametrize(
    ("text", "regular", "line", "is_found"),
    [
        ("LOSS", False, "step 1 loss 2", True),
        ("a.b", False, "axb", False),
        ("a.b", True, "axb", True),
        ("^loss", True, "the loss", False),
        ("step 1", False, "step \x1b[32m1\x1b[0m", True),
        (r"step \d$", True, "step \x1b[32m1\x1b[0m", True),
    ],
)
def test_a_text_or_an_expression_is_found_also_across_colours(text: str, *, regular: bool, line: str, is_found: bool):
    is_wanted, wrong = matcher(LogFilters(text=text, regular=regular))
    assert is_wanted is not None
    assert (is_wanted(line), wrong) == (is_found, "")


def test_all_lines_are_wanted_without_a_text():
    assert matcher(LogFilters()) == (None, "")


@pytest.mark.parametrize("text", ["(", "(?=x)", r"\1", "a{1000}{1000}", "\ud800"])
def test_a_wrong_expression_is_said_and_filters_nothing(text: str):
    is_wanted, wrong = matcher(LogFilters(text=text, regular=True))
    assert is_wanted is None
    assert "is no regular expression of RE2" in wrong


def test_an_expression_takes_linear_time():
    is_wanted, _ = matcher(LogFilters(text="(a+)+$", regular=True))
    assert is_wanted is not None
    assert not is_wanted("a" * 60_000 + "!")

"""A failing test is reported with its cause, even if a finalizer fails at the same time."""

from __future__ import annotations

import gc

import pytest


class Watched(Exception):
    """Knows whether finalizers could run while it was put into words."""

    collected: bool | None = None

    def __str__(self) -> str:
        Watched.collected = gc.isenabled()
        return "watched"


def test_no_finalizer_runs_while_a_failure_is_put_into_words(request: pytest.FixtureRequest) -> None:
    def fail() -> None:
        raise Watched

    call = pytest.CallInfo.from_call(fail, when="call")
    report = request.node.ihook.pytest_runtest_makereport(item=request.node, call=call)

    assert report.failed
    assert "watched" in report.longreprtext
    assert Watched.collected is False
    assert gc.isenabled()

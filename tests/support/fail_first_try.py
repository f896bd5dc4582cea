"""A plugin for pytest: each test that passes fails at the end of its first try, so that all tests are rerun."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail once after success; `--reruns` counts the tries from 1."""
    yield
    assert getattr(item, "execution_count", 1) > 1, "the first try always fails"

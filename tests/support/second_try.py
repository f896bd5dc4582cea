"""A plugin for pytest: each test that passes fails at the end of its first try, to see what its second one meets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Let it fail for nothing, once; `--reruns` counts the tries from 1."""
    yield
    assert getattr(item, "execution_count", 1) > 1, "this was but the first try"

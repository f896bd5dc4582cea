"""What tests of faults share: a loop that stands still between them, and a scenery in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from testbed.control_plane import ControlPlane
from trainshed.runtime import EventLoop

from .play import Stage, stage


@pytest.fixture(scope="module")
def clock() -> Iterator[asyncio.Runner]:
    """One loop for all, which stands still between tests."""
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        yield runner


@pytest.fixture(scope="module")
def scenery(clock: asyncio.Runner, frail: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """What all trials share; their operators look after one namespace each."""
    stack = AsyncExitStack()
    yield clock.run(stack.enter_async_context(stage(frail, tmp_path_factory.mktemp("trials"))))
    clock.run(stack.aclose())

"""An event loop in a thread, for tests that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import Any, Self, TypeVar

T = TypeVar("T")


@contextmanager
def in_background(manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter an async context manager in a loop of its own; at the end its tasks are cancelled."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def call(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    try:
        yield call(manager.__aenter__())
    finally:
        call(manager.__aexit__(None, None, None))
        call(_cancel_all())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


class InBackground:
    """An async context manager that may also run in a loop of its own."""

    @classmethod
    def start(cls, *values: Any, **options: Any) -> AbstractContextManager[Self]:
        """One in the background."""
        return in_background(cls(*values, **options))


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0.1)  # aborted connections are closed in the next iteration of the loop

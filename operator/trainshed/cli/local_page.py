"""The page of `trainshed run --ui`: that of `trainshed ui`, over the server and the log files of the run."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from trainshed.client.job_reader import JobReader
from trainshed.client.transport import RestClient
from trainshed.memory.in_process import MemoryTransport
from trainshed.memory.server import Server
from trainshed.ui.access import Access
from trainshed.ui.application import Site, served
from trainshed.ui.feed import Feed
from trainshed.ui.log_files import FolderLogs

PLACE = "this machine"


@asynccontextmanager
async def local_page(
    server: Server, logs: Path, say: Callable[[str], None]
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Show the jobs on a server; yield what waits for Ctrl-C once they have ended."""
    access = Access()
    feed = Feed(JobReader(RestClient(MemoryTransport(server))), "")
    async with served(Site(feed, access, PLACE, logs=FolderLogs(logs)), 0):
        following = asyncio.create_task(feed.run())
        say(f"The page is at {access.new_link()}")

        async def stay() -> None:
            say("The page stays until Ctrl-C.")
            loop, over = asyncio.get_running_loop(), asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(over.set))
            await over.wait()

        try:
            yield stay
        finally:
            following.cancel()
            await asyncio.wait({following})

"""The page of `trainshed run --ui`: that of `trainshed ui`, over the server and the logs of the run."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from trainshed.api.job import Document
from trainshed.client.job_reader import JobKind, JobReader, NoSuchJob
from trainshed.client.transport import RestClient
from trainshed.decisions.recording import FILE, Recording, last_of_job
from trainshed.decisions.ring import MOST_DECISIONS
from trainshed.local.options import ShownRun
from trainshed.memory.in_process import MemoryTransport
from trainshed.ui.access import Access
from trainshed.ui.application import Site, Sources, served
from trainshed.ui.feed import Feed
from trainshed.ui.log_files import RunLogs
from trainshed.ui.model import JobFile, JobsPlace, LocalPlace
from trainshed.views import rows
from trainshed.views.rank_stacks import ReplicaStacks

from . import kept_runs, page_links

PLACE, PROGRAM = "this machine", "trainshed run --ui"


@asynccontextmanager
async def local_page(run: ShownRun) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Show the jobs of a run; yield what waits for Ctrl-C once they have ended."""
    access = Access()
    feed = Feed(JobReader(RestClient(MemoryTransport(run.server))), "")
    report = f"trainshed report --run {shlex.quote(str(run.folder))}"
    local = LocalPlace(str(run.folder / "logs"), shlex.join(("trainshed", *sys.argv[1:])), report)

    async def stacks(job: Document, kind: JobKind, most: int) -> ReplicaStacks:
        del kind, most  # a machine has few
        return ReplicaStacks(await run.stacks(str(job["metadata"]["name"])))

    async def decisions(file: JobFile) -> Recording:
        return await asyncio.to_thread(_decisions, run.folder, file.document)

    sources = Sources(RunLogs(run.log), stacks=stacks, decisions=decisions)
    site = Site(feed, access, JobsPlace(PLACE, PROGRAM, local), sources)
    async with served(site, 0), page_links.offered(access.new_link, run.say, browser=True):
        following = asyncio.create_task(feed.run())

        async def stay() -> None:
            run.say("The page stays until Ctrl-C.")
            loop, over = asyncio.get_running_loop(), asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(over.set))
            await over.wait()

        try:
            yield stay
        finally:
            following.cancel()
            await asyncio.wait({following})


def _decisions(folder: Path, job: Document) -> Recording:
    """Return the last decisions about a job that a run has kept; raises `NoSuchJob` and OSError."""
    namespace, kind, name = rows.identity(job)
    uid = str(rows.metadata(job).get("uid"))
    found = last_of_job(kept_runs.decision_lines(folder), uid, MOST_DECISIONS)
    if not found:
        raise NoSuchJob(f"no decisions about {kind.lower()}/{name} are in {folder / FILE}")
    return Recording(kind, namespace, name, found)

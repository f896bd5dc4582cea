"""Soaks two replicas in small jobs and random faults for as long as one likes, and writes down how they were."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import click

from chaos.api import Api
from chaos.evidence import Evidence
from chaos.history import Chronicle
from chaos.kubelet import Kubelet
from chaos.proxy import Proxy
from support.audit.ending import Ending
from support.planes import ready_control_plane
from testbed.control_plane import ControlPlane
from trainshed.runtime import EventLoop

from .gaps import filled
from .health import Sample, sample
from .lives import TROUBLES, Round
from .replicas import Line, Replica, copy_sources
from .results import FILE, Record, lines, write
from .trouble import Trouble

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "soak"
LEASE = ("--lease-namespace=default", "--lease-name=soak")
#: Seconds in which a namespace gets jobs, and between two samples; and how many jobs live at a time.
ROUND, SAMPLED, AT_ONCE = 120.0, 10.0, 4


@dataclass
class Soak:
    """Everything that runs, and what has been found so far."""

    api: Api
    chronicle: Chronicle
    kubelet: Kubelet
    replicas: tuple[Replica, Replica]
    trouble: Trouble
    record: Record
    samples: list[Sample] = field(default_factory=list)

    async def run(self, until: float) -> None:
        """Rounds of jobs, one namespace each; while one gets jobs the one before it ends."""
        watching = asyncio.create_task(self._watch())
        making = asyncio.create_task(self.trouble.make(until))
        endings: list[asyncio.Task[None]] = []
        while time.monotonic() < until:
            found, before = await self._begin(len(endings)), self.trouble.counts.total()
            end = min(until, time.monotonic() + ROUND)
            await asyncio.gather(*(self._jobs(found, number, end) for number in range(AT_ONCE)))
            endings.append(asyncio.create_task(self._judge(found, before)))
        await asyncio.gather(making, *endings)
        watching.cancel()

    async def _begin(self, number: int) -> Round:
        name = f"soak-{number}"
        for replica in self.replicas:
            replica.line.open(name)
        pages = self.chronicle.pages[name]
        while "default" not in pages.now["serviceaccounts"]:
            with suppress(*TROUBLES):
                await self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            await asyncio.sleep(1)
        return Round(name, self.api, pages, self.kubelet)

    async def _jobs(self, found: Round, number: int, end: float) -> None:
        while time.monotonic() < end:
            await found.live(number)
            number += AT_ONCE
            await asyncio.sleep(1)

    async def _judge(self, found: Round, before: int) -> None:
        left = await found.gone()
        closed = [replica.line.close(found.namespace) for replica in self.replicas]
        passed = sorted((one for writes, _ in closed for one in writes), key=lambda one: one.at)
        heard = [*found.told, *(one for _, versions in closed for one in versions)]
        auditor = Evidence(filled(found.pages.versions, passed, heard), passed, found.mine).audit()
        faults, lives = self.trouble.counts.total() - before, sum(replica.starts for replica in self.replicas)
        broken = auditor.close(Ending(at=time.time(), faults=faults, lives=lives))
        for line in (*broken, *left, *found.stuck):
            click.echo(f"{time.strftime('%H:%M:%S')} {found.namespace}: {line}")
        self.record.take(found, left, [f"{found.namespace}: {one}" for one in broken], len(passed))
        self._write()
        with suppress(*TROUBLES):
            await self.api.call("DELETE", f"/api/v1/namespaces/{found.namespace}")
        del self.chronicle.pages[found.namespace]

    async def _watch(self) -> None:
        while True:
            found = [sample(replica.pid) for replica in self.replicas if replica.pid]
            self.samples += [one for one in found if one]
            await asyncio.sleep(SAMPLED)

    def _write(self) -> None:
        survivor, mortal = self.replicas
        self.record.samples = self.samples
        self.record.troubles = Counter(self.trouble.counts)
        self.record.lives = {survivor.name: survivor.starts, mortal.name: mortal.starts}
        self.record.complaints = [line for replica in self.replicas for line in replica.complaints()]
        write(self.record, self.record.file)


@asynccontextmanager
async def soak(plane: ControlPlane, record: Record, folder: Path) -> AsyncIterator[Soak]:
    """Two replicas at work on a control plane, from the sources as they were committed last."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(Api(plane))
        chronicle = await stack.enter_async_context(Chronicle(api))
        kubelet = Kubelet(api)
        chronicle.listeners.append(kubelet.hear)
        replicas = []
        for name in ("survivor", "mortal"):
            line = Line(await stack.enter_async_context(Proxy(api)))
            line.open()
            replicas.append(Replica(name, line, folder, *LEASE))
        living = [asyncio.create_task(replica.live()) for replica in replicas]
        survivor, mortal = replicas
        yield Soak(api, chronicle, kubelet, (survivor, mortal), Trouble(plane, api, survivor, mortal), record)
        await asyncio.gather(*(replica.end() for replica in replicas))
        await asyncio.wait(living, timeout=10)


async def go(plane: ControlPlane, record: Record, folder: Path) -> None:
    """Soak for as many minutes as were asked for."""
    async with soak(plane, record, folder) as found:
        await found.run(time.monotonic() + record.asked * 60)
    found._write()


@click.command()
@click.option("--minutes", default=120.0, show_default=True, help="How long to soak.")
@click.option("--folder", default=FOLDER, type=Path, help="For logs and a copy of the sources; emptied first.")
@click.option("--report", default=FILE, type=Path, help="Where the figures go.")
def main(minutes: float, folder: Path, report: Path) -> None:
    """Soak two replicas in small jobs and random faults."""
    record = Record(asked=minutes, commit=copy_sources(folder), file=report)
    os.nice(5)
    with (
        tempfile.TemporaryDirectory() as home,
        ready_control_plane(Path(home)) as plane,
        asyncio.Runner(loop_factory=EventLoop) as runner,
    ):
        runner.run(go(plane, record, folder))
    for line in lines(record):
        click.echo(line)
    sys.exit(bool(record.violations or record.leaks or record.stuck or record.complaints))


if __name__ == "__main__":
    main()

"""Runs two replicas with small jobs and random faults for hours, and writes the results."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from chaos.evidence import Evidence
from chaos.run import Environment, environment
from support.audit.final_state import RunEnd
from support.planes import ready_control_plane
from support.process_usage import sample
from testbed.control_plane import ControlPlane
from trainshed.event_loop import EventLoop

from .gaps import filled
from .jobs import UNAVAILABLE, Round
from .random_faults import RandomFaults
from .replica import ROOT, Replica, begin, commit
from .results import FILE, Record, lines, write

FOLDER = ROOT / "build" / "soak"
LEASE = ("--lease-namespace=default", "--lease-name=soak")
#: Seconds in which a namespace gets jobs, and between two samples; and how many jobs run at a time.
ROUND, SAMPLED, AT_ONCE = 120.0, 10.0, 4


@dataclass
class Soak:
    """The parts of a soak, and its results so far."""

    env: Environment
    replicas: tuple[Replica, Replica]
    faults: RandomFaults
    record: Record

    async def run(self, until: float) -> None:
        """Rounds of jobs, one namespace each; while one gets jobs the one before it ends."""
        sampling = asyncio.create_task(self._sample())
        injecting = asyncio.create_task(self.faults.inject(until))
        endings: list[asyncio.Task[None]] = []
        while time.monotonic() < until:
            found, before = await self._begin(len(endings)), self.faults.counts.total()
            end = min(until, time.monotonic() + ROUND)
            await asyncio.gather(*(self._jobs(found, number, end) for number in range(AT_ONCE)))
            endings.append(asyncio.create_task(self._judge(found, before)))
        await asyncio.gather(injecting, *endings)
        sampling.cancel()

    async def _begin(self, number: int) -> Round:
        name = f"soak-{number}"
        for replica in self.replicas:
            replica.connection.open(name)
        history = self.env.history.namespaces[name]
        while "default" not in history.now["serviceaccounts"]:
            with suppress(*UNAVAILABLE):
                await self.env.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            await asyncio.sleep(1)
        return Round(name, self.env.api, history, self.env.kubelet)

    async def _jobs(self, found: Round, number: int, end: float) -> None:
        while time.monotonic() < end:
            await found.run(number)
            number += AT_ONCE
            await asyncio.sleep(1)

    async def _judge(self, found: Round, before: int) -> None:
        left = await found.left()
        closed = [replica.connection.close(found.namespace) for replica in self.replicas]
        passed = sorted((one for writes, _ in closed for one in writes), key=lambda one: one.at)
        heard = [*found.responses, *(one for _, versions in closed for one in versions)]
        auditor = Evidence(filled(found.history.versions, passed, heard), passed, found.user_versions).audit()
        faults = self.faults.counts.total() - before
        starts = sum(replica.supervisor.starts for replica in self.replicas)
        broken = auditor.close(RunEnd(at=time.time(), faults=faults, lives=starts))
        for line in (*broken, *left, *found.stuck):
            click.echo(f"{time.strftime('%H:%M:%S')} {found.namespace}: {line}")
        self.record.take(found, left, [f"{found.namespace}: {one}" for one in broken], len(passed))
        self.write()
        with suppress(*UNAVAILABLE):
            await self.env.api.call("DELETE", f"/api/v1/namespaces/{found.namespace}")
        del self.env.history.namespaces[found.namespace]

    async def _sample(self) -> None:
        while True:
            self.record.samples += filter(None, (sample(replica.pid) for replica in self.replicas))
            await asyncio.sleep(SAMPLED)

    def write(self) -> None:
        """Write the results so far."""
        self.record.faults = self.faults.counts
        self.record.starts = {replica.name: replica.supervisor.starts for replica in self.replicas}
        self.record.complaints = [line for replica in self.replicas for line in replica.supervisor.complaints()]
        write(self.record)


@asynccontextmanager
async def soak(plane: ControlPlane, record: Record, folder: Path) -> AsyncIterator[Soak]:
    """Two replicas on a control plane; only the second is ever killed."""
    async with AsyncExitStack() as stack:
        env = await stack.enter_async_context(environment(plane, folder))
        survivor = await begin(stack, env, "survivor", *LEASE)
        mortal = await begin(stack, env, "mortal", *LEASE)
        yield Soak(env, (survivor, mortal), RandomFaults(plane, env.api, survivor, mortal), record)
        await asyncio.gather(survivor.supervisor.end(), mortal.supervisor.end())


async def go(plane: ControlPlane, record: Record, folder: Path) -> None:
    """Run the soak for the requested number of minutes."""
    async with soak(plane, record, folder) as found:
        await found.run(time.monotonic() + record.asked * 60)
    found.write()


@click.command()
@click.option("--minutes", default=120.0, show_default=True, help="How long to soak.")
@click.option("--folder", default=FOLDER, type=Path, help="For logs; emptied first.")
@click.option("--report", default=FILE, type=Path, help="The result file.")
def main(minutes: float, folder: Path, report: Path) -> None:
    """Run two replicas with small jobs and random faults."""
    record = Record(asked=minutes, commit=commit(), file=report)
    shutil.rmtree(folder, ignore_errors=True)
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

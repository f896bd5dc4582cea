"""The API server is unavailable for minutes, in three ways; three operators survive it and then go on."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import click

from chaos.evidence import Evidence
from chaos.run import Environment, environment
from support.api_request import refusal
from support.audit.final_state import RunEnd
from support.jobs import tfjob
from support.planes import ready_control_plane
from support.process_usage import Sample, cpu, sample
from support.results import keep, place
from support.user_client import where
from testbed.control_plane import ControlPlane
from trainshed.event_loop import EventLoop

from .replica import ROOT, Replica, begin, commit

FOLDER = ROOT / "build" / "outage"
FILE = place("outage")
#: The outages: no server listens, every request is refused, or every connection breaks.
WAYS = ("gone", "refusing", "broken")
JOBS = 5
#: Seconds within which all jobs must have converged afterwards.
IN_TIME = 10.0


@dataclass
class Subject:
    """One operator and its namespace, which is named after the way."""

    way: str
    replica: Replica
    env: Environment
    before: Sample | None = None
    cpu: float = 0.0
    figures: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.history = self.env.history.namespaces[self.way]
        self.replica.connection.open(self.way)

    async def begin(self) -> None:
        """Some jobs run."""
        await self.env.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.way}})
        await self.history.until(lambda: "default" in self.history.now["serviceaccounts"], 30)
        for number in range(JOBS):
            await self.env.api.call("POST", where("tfjobs", self.way), tfjob(f"old-{number}", Chief=1, Worker=1))
        await self.history.until(lambda: self._all("old", "Running", JOBS), 60)
        await asyncio.sleep(3)

    def shut(self) -> None:
        """The server is unavailable from now on."""
        self.before, self.cpu = sample(self.replica.pid), cpu(self.replica.pid)
        if self.way == "broken":
            self.replica.connection.shut()
        elif self.way == "refusing":
            self.replica.connection.instead = refusal(503, "ServiceUnavailable")

    def measure(self, minutes: float) -> None:
        """Return the cost of the outage."""
        after = sample(self.replica.pid)
        assert self.before
        assert after
        spent = (cpu(self.replica.pid) - self.cpu) / minutes
        self.figures = {"way": self.way, "lives": self.replica.supervisor.starts, "cpu_s_per_minute": round(spent, 2)}
        self.figures |= {"rss_before_mib": round(self.before.rss, 1), "rss_after_mib": round(after.rss, 1)}
        self.figures |= {"files_before": self.before.files, "files_after": after.files}

    async def back(self) -> None:
        """End the outage: the old jobs succeed, and a new job is created."""
        self.replica.connection.instead = None
        began = time.monotonic()
        chiefs = [pod for name, pod in list(self.history.now["pods"].items()) if "chief" in name]
        await asyncio.gather(*(self.env.kubelet.end(pod, 0) for pod in chiefs))
        await self.env.api.call("POST", where("tfjobs", self.way), tfjob("new", Chief=1, Worker=1))
        await self.history.until(lambda: self._all("old", "Succeeded", JOBS) and self._all("new", "Running", 1), 120)
        self.figures["converged_s"] = round(time.monotonic() - began, 2)
        await asyncio.sleep(3)

    def judge(self) -> list[str]:
        """The violations."""
        supervisor = self.replica.supervisor
        auditor = Evidence(self.history.versions, self.replica.connection.close(self.way)[0], ()).audit()
        broken = [*map(str, auditor.close(RunEnd(at=time.time(), faults=1))), *supervisor.complaints()]
        if self.figures["converged_s"] > IN_TIME:
            broken.append(f"V8: {self.way}: it took {self.figures['converged_s']} s")
        if supervisor.starts > 1:
            broken.append(f"V10: {self.way}: the operator has ended with {supervisor.codes}")
        self.figures["violations"] = len(broken)
        return broken

    def _all(self, prefix: str, condition: str, count: int) -> bool:
        names = [name for name in self.history.now["tfjobs"] if name.startswith(prefix)]
        return len(names) == count and all(self.history.is_true("tfjobs", name, condition) for name in names)


async def go(plane: ControlPlane, minutes: float) -> list[Subject]:
    """Run an outage of this number of minutes."""
    async with AsyncExitStack() as stack:
        env = await stack.enter_async_context(environment(plane, FOLDER))
        subjects = [
            Subject(way, await begin(stack, env, way, f"--namespace={way}", f"--lease-namespace={way}"), env)
            for way in WAYS
        ]
        await asyncio.gather(*(subject.begin() for subject in subjects))
        for subject in subjects:
            subject.shut()
        await asyncio.to_thread(plane.kill_apiserver)
        await asyncio.sleep(minutes * 60)
        for subject in subjects:
            subject.measure(minutes)
        await asyncio.to_thread(plane.start_apiserver)
        await asyncio.gather(*(subject.back() for subject in subjects))
        await asyncio.gather(*(subject.replica.supervisor.end() for subject in subjects))
    return subjects


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="How long the API server is unavailable.")
def main(minutes: float) -> None:
    """Run three operators through an outage of the API server."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    figures = {"commit": commit(), "minutes": minutes, "jobs": (JOBS + 1) * len(WAYS)}
    with (
        tempfile.TemporaryDirectory() as folder,
        ready_control_plane(Path(folder)) as plane,
        asyncio.Runner(loop_factory=EventLoop) as runner,
    ):
        subjects = runner.run(go(plane, minutes))
    broken = [line for subject in subjects for line in subject.judge()]
    figures |= {"violations": len(broken), "lives": max(subject.replica.supervisor.starts for subject in subjects)}
    figures |= {"converged_max_s": max(subject.figures["converged_s"] for subject in subjects)}
    by_way = [subject.figures for subject in subjects]
    keep(FILE, f"make chaos-apiserver MINUTES={minutes:g}", figures | {"by_way": by_way})
    for line in (*broken, FILE.read_text()):
        click.echo(line)
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()

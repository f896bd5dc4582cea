"""The API server is away for minutes, in three ways; three operators live through it and go on once it is back."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import click

from chaos.api import Api, where
from chaos.evidence import Evidence
from chaos.history import Chronicle, Pages
from chaos.kubelet import Kubelet
from chaos.proxy import Proxy
from chaos.request import refusal
from reliability.results import keep, place
from support.audit.ending import Ending
from support.jobs import tfjob
from support.planes import ready_control_plane
from testbed.control_plane import ControlPlane
from trainshed.runtime import EventLoop

from .health import Sample, cpu, sample
from .replicas import ROOT, Line, Replica, copy_sources

FOLDER = ROOT / "build" / "outage"
FILE = place("outage")
#: What an operator meets: nobody listens, everything is refused, or every connection breaks.
WAYS = ("gone", "refusing", "broken")
JOBS = 5
#: Seconds within which all must be as if nothing had been.
IN_TIME = 10.0


@dataclass
class Scene:
    """One operator and its namespace, which has the name of the way."""

    way: str
    line: Line
    replica: Replica
    api: Api
    pages: Pages
    kubelet: Kubelet
    before: Sample | None = None
    cpu: float = 0.0
    figures: dict[str, object] = field(default_factory=dict)

    async def begin(self) -> None:
        """Some jobs run."""
        await self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.way}})
        await self.pages.until(lambda: "default" in self.pages.now["serviceaccounts"], 30)
        for number in range(JOBS):
            await self.api.call("POST", where("tfjobs", self.way), tfjob(f"old-{number}", Chief=1, Worker=1))
        await self.pages.until(lambda: self._all("old", "Running", JOBS), 60)
        await asyncio.sleep(3)

    def shut(self) -> None:
        """The server is away from now on."""
        self.before, self.cpu = sample(self.replica.pid), cpu(self.replica.pid)
        self.line.shut = self.way == "broken"
        self.line.says = refusal(503, "ServiceUnavailable") if self.way == "refusing" else None

    def measure(self, minutes: float) -> None:
        """What the outage has cost."""
        after = sample(self.replica.pid)
        assert self.before
        assert after
        spent = (cpu(self.replica.pid) - self.cpu) / minutes
        self.figures = {"way": self.way, "lives": self.replica.starts, "cpu_s_per_minute": round(spent, 2)}
        self.figures |= {"rss_before_mib": round(self.before.rss, 1), "rss_after_mib": round(after.rss, 1)}
        self.figures |= {"files_before": self.before.files, "files_after": after.files}

    async def back(self) -> None:
        """The server is back, and much has happened: the old jobs succeed, and there is a new one."""
        self.line.shut, self.line.says = False, None
        began = time.monotonic()
        pods = self.pages.now["pods"]
        chiefs = [pod for name, pod in list(pods.items()) if "chief" in name]
        await asyncio.gather(*(self.kubelet.end(pod, 0) for pod in chiefs))
        await self.api.call("POST", where("tfjobs", self.way), tfjob("new", Chief=1, Worker=1))
        await self.pages.until(lambda: self._all("old", "Succeeded", JOBS) and self._all("new", "Running", 1), 120)
        self.figures["converged_s"] = round(time.monotonic() - began, 2)
        await asyncio.sleep(3)

    def judge(self) -> list[str]:
        """The promises that were broken."""
        auditor = Evidence(self.pages.versions, self.line.close(self.way)[0], ()).audit()
        broken = [str(one) for one in auditor.close(Ending(at=time.time(), faults=1))] + self.replica.complaints()
        if self.figures["converged_s"] > IN_TIME:
            broken.append(f"V8: {self.way}: it took {self.figures['converged_s']} s")
        if self.replica.starts > 1:
            broken.append(f"V10: {self.way}: the operator has ended with {self.replica.ends}")
        self.figures["violations"] = len(broken)
        return broken

    def _all(self, prefix: str, condition: str, count: int) -> bool:
        jobs = [job for name, job in self.pages.now["tfjobs"].items() if name.startswith(prefix)]
        return len(jobs) == count and all(_says(job, condition) for job in jobs)


def _says(job: dict, condition: str) -> bool:
    found = job.get("status", {}).get("conditions") or ()
    return any(one["type"] == condition and one["status"] == "True" for one in found)


async def go(plane: ControlPlane, minutes: float) -> list[Scene]:
    """An outage of so many minutes, and all that came of it."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(Api(plane))
        chronicle = await stack.enter_async_context(Chronicle(api))
        kubelet = Kubelet(api)
        chronicle.listeners.append(kubelet.hear)
        scenes = []
        for way in WAYS:
            line = Line(await stack.enter_async_context(Proxy(api)))
            line.open()
            line.open(way)
            words = (f"--namespace={way}", f"--lease-namespace={way}")
            scenes.append(Scene(way, line, Replica(way, line, FOLDER, *words), api, chronicle.pages[way], kubelet))
        living = [asyncio.create_task(scene.replica.live()) for scene in scenes]
        await asyncio.gather(*(scene.begin() for scene in scenes))
        for scene in scenes:
            scene.shut()
        await asyncio.to_thread(plane.kill_apiserver)
        await asyncio.sleep(minutes * 60)
        for scene in scenes:
            scene.measure(minutes)
        await asyncio.to_thread(plane.start_apiserver)
        await asyncio.gather(*(scene.back() for scene in scenes))
        await asyncio.gather(*(scene.replica.end() for scene in scenes))
        await asyncio.wait(living, timeout=10)
    return scenes


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="How long the API server is away.")
def main(minutes: float) -> None:
    """Live through an outage of the API server."""
    figures = {"commit": copy_sources(FOLDER), "minutes": minutes, "jobs": (JOBS + 1) * len(WAYS)}
    with (
        tempfile.TemporaryDirectory() as folder,
        ready_control_plane(Path(folder)) as plane,
        asyncio.Runner(loop_factory=EventLoop) as runner,
    ):
        scenes = runner.run(go(plane, minutes))
    broken = [line for scene in scenes for line in scene.judge()]
    figures |= {"violations": len(broken), "lives": max(scene.replica.starts for scene in scenes)}
    figures |= {"converged_max_s": max(scene.figures["converged_s"] for scene in scenes)}
    keep(FILE, f"make chaos-apiserver MINUTES={minutes:g}", figures | {"by_way": [scene.figures for scene in scenes]})
    for line in (*broken, FILE.read_text()):
        click.echo(line)
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()

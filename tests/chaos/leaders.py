"""Replicas of the operator that share a Lease, each with its own user: the current leader, and the writes of each."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from support import Operator
from support.audit_log import Request, requests
from support.fake_kubelet import FakeKubelet
from support.jobs import tfjob
from support.planes import ready_control_plane
from support.results import keep, place, quantile
from support.user_client import UserClient, eventually
from testbed.control_plane import ControlPlane

FILE = place("leaders")


def writes(plane: ControlPlane, name: str) -> list[Request]:
    """The writes of a user, without those of the Lease."""
    return [one for one in requests(plane, name) if one.writes and "leases" not in one.what]


class Replica:
    """A replica in one namespace; its user is its name, which is also who it is to the Lease."""

    def __init__(self, plane: ControlPlane, user: UserClient, name: str, folder: Path, *words: str) -> None:
        self.name = f"{user.namespace}-{name}"
        self._plane = plane
        home = folder / name
        home.mkdir(parents=True)
        where = (f"--namespace={user.namespace}", f"--lease-namespace={user.namespace}")
        kubeconfig = plane.kubeconfig_for(self.name, ("system:masters",))
        self.operator = Operator(kubeconfig, home, *where, f"--lease-identity={self.name}", *words)

    def writes(self, since: float = 0.0) -> list[Request]:
        """Its writes since then, without those of the Lease."""
        return [one for one in writes(self._plane, self.name) if one.at >= since]

    def leads(self) -> bool:
        """Return whether its metrics report it as the leader."""
        return "trainshed_leader 1.0" in self.operator.served()


@dataclass
class Pair:
    """Two replicas, of which the `first` leads."""

    plane: ControlPlane
    user: UserClient
    first: Replica
    second: Replica

    def job(self, name: str, **roles: int) -> None:
        """A new job."""
        self.user.create(tfjob(name, **(roles or {"Worker": 1})))

    def acted(self, replica: Replica, since: float, within: float = 40) -> float:
        """Return the seconds from a moment to the first write of a replica after it."""
        first = eventually(lambda: replica.writes(since), within, every=0.2)[0]
        return first.at - since


@contextmanager
def pair(plane: ControlPlane, namespace: str, folder: Path) -> Iterator[Pair]:
    """Two replicas, and pods that run."""
    user = UserClient.somewhere(plane.kubeconfig, named=namespace)
    replicas = [Replica(plane, user, name, folder) for name in ("first", "second")]
    found = Pair(plane, user, *replicas)
    try:
        replicas[0].operator.start()
        eventually(lambda: found.user.holder() == replicas[0].name, 20)
        replicas[1].operator.start()
        with FakeKubelet(user):
            yield found
    finally:
        for replica in replicas:
            if replica.operator.alive:
                replica.operator.signal(signal.SIGCONT)
                replica.operator.kill()


def killed(plane: ControlPlane, namespace: str, folder: Path) -> float:
    """Seconds from the SIGKILL of the leader to the other's first write."""
    with pair(plane, namespace, folder) as found:
        found.job("before")
        eventually(lambda: found.user.state("TFJob", "before") == "Running", 30)
        found.first.operator.kill()
        died = time.time()
        found.job("after")
        return found.acted(found.second, died)


def released(plane: ControlPlane, namespace: str, folder: Path) -> float:
    """Seconds from the regular end of the leader to the other's first write."""
    with pair(plane, namespace, folder) as found:
        found.job("before")
        eventually(lambda: found.user.state("TFJob", "before") == "Running", 30)
        assert found.first.operator.stop() == 0
        ended = time.time()
        found.job("after")
        return found.acted(found.second, ended)


def frozen(plane: ControlPlane, namespace: str, folder: Path, workers: int = 60) -> tuple[int, list[Request], int]:
    """A leader's writes before it is frozen in the middle of a job, and after it continues; and the job's pods."""
    with pair(plane, namespace, folder) as found:
        found.job("big", Worker=workers)
        eventually(lambda: len(found.user.pods()) >= 5, 30, every=0.002)
        found.first.operator.signal(signal.SIGSTOP)
        before, since = len(found.first.writes()), time.time()
        found.acted(found.second, since)
        eventually(lambda: len(found.user.pods()) == workers, 60)
        time.sleep(max(0.0, since + 22 - time.time()))
        woken = time.time()
        found.first.operator.signal(signal.SIGCONT)
        time.sleep(6)
        assert not found.first.leads()
        return before, found.first.writes(woken), len(found.user.pods())


@click.command()
@click.option("--runs", default=5, show_default=True, help="How often each is done.")
def main(runs: int) -> None:
    """Kill, stop and freeze leaders, and measure how soon another acts."""
    began = time.time()
    with tempfile.TemporaryDirectory() as folder, ready_control_plane(Path(folder) / "plane") as plane:
        home = Path(folder)
        kills = sorted(killed(plane, f"kill-{run}", home / f"kill-{run}") for run in range(runs))
        ends = sorted(released(plane, f"end-{run}", home / f"end-{run}") for run in range(runs))
        freezes = [frozen(plane, f"freeze-{run}", home / f"freeze-{run}") for run in range(max(1, runs // 2))]
    figures = {"runs": runs, "minutes": round((time.time() - began) / 60, 1)}
    figures |= {"killed_p50_s": quantile(kills, 0.5), "killed_max_s": quantile(kills, 1)}
    figures |= {"released_p50_s": quantile(ends, 0.5), "released_max_s": quantile(ends, 1)}
    figures |= {"freezes": len(freezes), "writes_before_frozen": sum(before for before, _, _ in freezes)}
    figures |= {"writes_after_waking": sum(len(after) for _, after, _ in freezes)}
    keep(FILE, f"make chaos-leader RUNS={runs}", figures)
    click.echo(FILE.read_text())
    sys.exit(bool(figures["writes_after_waking"]))


if __name__ == "__main__":
    main()

"""What progress by logs costs the operator: of a hundred jobs that report every 5 s, and of a thousand open logs."""

from __future__ import annotations

import os
import time

import pytest

from support import Operator, UserClient
from support.fake_kubelet import NODE, FakeKubelet
from support.jobs import pytorchjob
from support.log_server import LogServer
from support.measured import USER, Measured
from support.user_client import eventually

#: Seconds for which is measured.
MEASURED = float(os.environ.get("PROGRESS_SECONDS", "45"))
LOGS, WRITE = {"trainshed.dev/progress": "Logs"}, "patch pytorchjobs/status"


def said(_pod: str, number: int) -> str:
    """A line as trainings print it."""
    return f"INFO 2026-01-01 12:00:00 epoch 1 | step {number + 1}/100000 | loss {1 / (number + 2):.4f} | lr 5e-05\n"


@pytest.mark.parametrize(("jobs", "every"), [(100, 5), (1000, 60)])
def test_jobs_that_report_have_a_write_in_15_seconds_and_others_none(jobs: int, every: float, plane, tmp_path) -> None:
    user = UserClient.somewhere(plane.kubeconfig)
    flags = ("--progress-logs", f"--namespace={user.namespace}", f"--lease-namespace={user.namespace}")
    operator = Operator(plane.kubeconfig_for(USER, ("system:masters",)), tmp_path, *flags).start()
    measured = Measured(operator, plane.audit_log)
    try:
        with LogServer(user, NODE, said, every) as server, FakeKubelet(user, pause=2):
            submit(user, "quiet", jobs, {})
            quiet, writes = usage(measured, user, f"{jobs} jobs that do not report")
            assert (writes, server.open) == (0, 0)
            for number in range(jobs):
                user.delete_job("PyTorchJob", f"quiet{number}")
            eventually(lambda: not user.pods(), 240)
            submit(user, "says", jobs, LOGS)
            eventually(lambda: server.open >= jobs, 240)
            share, writes = usage(measured, user, f"{jobs} jobs that say a line every {every} s")
            assert server.most_open == jobs
            assert writes <= jobs * (MEASURED / 15 + 1)
            print(f"{share - quiet:.2%} of a core, {(share - quiet) * MEASURED / writes * 1000:.2f} ms for each write")
    finally:
        operator.stop()
        user.call("DELETE", f"/api/v1/nodes/{NODE}")


def submit(user: UserClient, name: str, count: int, annotations: dict[str, str]) -> None:
    """Create jobs of one replica, and wait until all of them run."""
    for number in range(count):
        user.create(pytorchjob("x", Master=1) | {"metadata": {"name": f"{name}{number}", "annotations": annotations}})
    eventually(lambda: sum(pod["status"].get("phase") == "Running" for pod in user.pods()) == count, 240)


def usage(measured: Measured, user: UserClient, what: str) -> tuple[float, int]:
    """Return which share of a core the operator takes for some time, and how often it writes a status."""
    time.sleep(20)
    before, began, cpu = measured.requests(user.namespace)[WRITE], time.monotonic(), measured.cpu()
    time.sleep(MEASURED)
    share = (measured.cpu() - cpu) / (time.monotonic() - began)
    writes = measured.requests(user.namespace)[WRITE] - before
    print(f"\n{what}: {share:.2%} of a core, {measured.memory():.0f} MiB, {writes} writes in {MEASURED:.0f} s")
    return share, writes

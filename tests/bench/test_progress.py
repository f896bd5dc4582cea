"""What progress by logs costs the operator: of jobs that report every 5 s, whether tables show a difference or not."""

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
from trainshed.api.trainer_status import REPORT_INTERVAL, SAME_REPORT_INTERVAL

pytestmark = pytest.mark.long

JOBS = int(os.environ.get("PROGRESS_JOBS", "100"))
#: Seconds between two lines of a log.
EVERY = 5
LOGS, WRITE = {"metadata": {"annotations": {"trainshed.dev/progress": "Logs"}}}, "patch pytorchjobs/status"


def test_a_job_that_reports_is_written_if_tables_show_more_and_others_never(plane, tmp_path) -> None:
    user, total = UserClient.somewhere(plane.kubeconfig), ""

    def said(_pod: str, number: int) -> str:
        """A line as trainings print it; the percentage that follows from the total is what tables show."""
        return f"INFO 2026-01-01 12:00:00 step {number + 1}{total} | loss {1 / (number + 2):.4f} | lr 5e-05\n"

    flags = ("--progress-logs", f"--namespace={user.namespace}", f"--lease-namespace={user.namespace}")
    operator = Operator(plane.kubeconfig_for(USER, ("system:masters",)), tmp_path, *flags).start()
    try:
        with LogServer.start(user, NODE, said, EVERY) as server, FakeKubelet(user):
            for number in range(JOBS):
                user.create(pytorchjob(f"job-{number}", Master=1))
            eventually(lambda: sum(pod["status"].get("phase") == "Running" for pod in user.pods()) == JOBS, 240)
            time.sleep(2)
            measure = Usage(Measured(operator, plane.audit_log), user.namespace)
            quiet, writes = measure.during(4, "do not report")
            assert (writes, server.open) == (0, 0)
            began = time.monotonic()
            for number in range(JOBS):
                user.patch_job("PyTorchJob", f"job-{number}", LOGS)
            eventually(lambda: server.open >= JOBS, 240)
            time.sleep(EVERY)
            same, writes = measure.during(2 * EVERY, "report what tables do not show")
            assert not writes or time.monotonic() - began > SAME_REPORT_INTERVAL.total_seconds()
            total = "/100"
            time.sleep(EVERY)
            seconds = REPORT_INTERVAL.total_seconds()
            more, writes = measure.during(seconds, "report what they show")
            assert JOBS / 2 <= writes <= JOBS * 2
            assert server.most_open == JOBS
            write = (more - same) * seconds / writes
            each_minute = same - quiet + write * JOBS / SAME_REPORT_INTERVAL.total_seconds()
            print(
                f"a line costs {(same - quiet) * EVERY / JOBS * 1e6:.0f} µs, a write {write * 1000:.2f} ms; in all"
                f" {more - quiet:.2%} of a core with a write every 15 s, {each_minute:.2%} with one every 60 s"
            )
    finally:
        operator.stop()
        user.call("DELETE", f"/api/v1/nodes/{NODE}")


class Usage:
    """The share of a core that an operator takes, and how many statuses it writes."""

    def __init__(self, measured: Measured, namespace: str) -> None:
        self._measured, self._namespace = measured, namespace

    def during(self, seconds: float, what: str) -> tuple[float, int]:
        """Return both for some seconds, and print them."""
        before, began, cpu = self._writes(), time.monotonic(), self._measured.cpu()
        time.sleep(seconds)
        share = (self._measured.cpu() - cpu) / (time.monotonic() - began)
        writes = self._writes() - before
        print(f"\n{JOBS} jobs that {what}: {share:.2%} of a core, {self._measured.memory():.0f} MiB, {writes} writes")
        return share, writes

    def _writes(self) -> int:
        return self._measured.requests(self._namespace)[WRITE]

"""Times that are recorded and not limited: these machines are too noisy for limits."""

from __future__ import annotations

import time

import pytest

from support.fake_kubelet import FakeKubelet
from support.jobs import tfjob
from support.user_client import UserClient, eventually

pytestmark = pytest.mark.long


def test_a_hundred_jobs_of_four_at_once(user: UserClient, measured) -> None:
    cpu, began = measured.cpu(), time.monotonic()
    with FakeKubelet(user, lambda _name: "") as kubelet:
        for number in range(100):
            user.create(tfjob(f"many-{number}", Chief=1, Worker=3))
        submitted = time.monotonic() - began
        eventually(lambda: len(user.pods()) == 400, 120)
        made = time.monotonic() - began
        kubelet.script = lambda name: "0" if "chief" in name else "Running"
        eventually(lambda: succeeded(user) == 100, 180)
    total = time.monotonic() - began
    print(
        f"\n100 jobs x 4: submitted in {submitted:.1f} s, all pods after {made:.1f} s, Succeeded after {total:.1f} s,"
        f" {(measured.cpu() - cpu) / 400 * 1000:.1f} ms CPU a pod, {measured.memory()} MiB"
    )


def test_one_job_of_five_hundred(user: UserClient, measured) -> None:
    cpu, began = measured.cpu(), time.monotonic()
    user.create(tfjob("big", Chief=1, Worker=499))
    eventually(lambda: len(user.pods()) == 500, 120)
    made = time.monotonic() - began
    cost = (measured.cpu() - cpu) / 500 * 1000
    print(f"\n1 job x 500: all pods after {made:.2f} s, {cost:.2f} ms CPU a pod, {measured.memory()} MiB")


def succeeded(user: UserClient) -> int:
    """Return the number of jobs that have succeeded."""
    return sum(
        any(condition["type"] == "Succeeded" for condition in job.get("status", {}).get("conditions", []))
        for job in user.jobs("TFJob")
    )

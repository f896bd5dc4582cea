"""What recorded decisions cost: writes of a ConfigMap for each job that is recorded, and nothing for others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import FakeKubelet, Operator, UserClient
from support.jobs import tfjob
from support.measured import USER, Measured
from support.planes import ready_control_plane
from support.user_client import eventually
from testbed.control_plane import ControlPlane
from trainshed.controller.job_decisions import EVERY

JOBS, PODS = 25, 4
#: What the operator records, whether jobs ask for it, and whether it is recorded then.
MODES = [("None", True, False), ("Annotated", True, True)]
MORE = [("None", False, False), ("Annotated", False, False), ("All", False, True)]
MODES += [pytest.param(*each, marks=pytest.mark.long) for each in MORE]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with no other operator."""
    with ready_control_plane(tmp_path_factory.mktemp("alone")) as plane:
        yield plane


@pytest.mark.parametrize(("mode", "asked", "recorded"), MODES)
def test_only_jobs_whose_decisions_are_recorded_pay_for_it(mode, asked, recorded, alone, tmp_path: Path) -> None:
    user = UserClient.somewhere(alone.kubeconfig)
    kubeconfig = alone.kubeconfig_for(USER, ("system:masters",))
    operator = Operator(kubeconfig, tmp_path, f"--record-decisions={mode}").start()
    try:
        measured = Measured(operator, alone.audit_log)
        began, cpu = time.monotonic(), measured.cpu()
        with FakeKubelet(user, lambda _: "0"):
            for number in range(JOBS):
                body = tfjob(f"job-{number}", Worker=PODS)
                body["metadata"]["annotations"] = {"trainshed.dev/record": "Decisions"} if asked else {}
                user.create(body)
            eventually(lambda: succeeded(user) == JOBS, 300)
            eventually(lambda: not recorded or config_maps(user) == JOBS, 60)
        lasted = time.monotonic() - began
        cpu = (measured.cpu() - cpu) / JOBS / PODS * 1000
    finally:
        operator.stop()
    requests = {what: count for what, count in measured.requests(user.namespace).items() if "configmaps" in what}
    print(f"\n{mode}, {asked=}: {requests} in {lasted:.0f} s, {cpu:.2f} ms CPU a pod")
    writes = requests.get("update configmaps", 0) + requests.get("patch configmaps", 0)
    assert requests.get("create configmaps", 0) == (JOBS if recorded else 0)
    assert writes <= (JOBS * (1 + lasted // EVERY.total_seconds()) if recorded else 0)
    assert sum(requests.values()) <= (3 * JOBS + writes if recorded else 0)


def succeeded(user: UserClient) -> int:
    """The number of jobs that have succeeded."""
    return sum(user.state("TFJob", f"job-{number}") == "Succeeded" for number in range(JOBS))


def config_maps(user: UserClient) -> int:
    """The number of ConfigMaps of jobs."""
    return sum(bool(found["metadata"].get("ownerReferences")) for found in user.core("configmaps"))

"""Two replicas and one Lease: another takes over in time, who is not the leader writes nothing, and two do no harm."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from support import Operator
from support.api_request import Answer, Request, refusal
from support.fault_proxy import FaultProxy, Forward
from support.jobs import tfjob
from support.user_client import UserClient, eventually
from testbed.control_plane import ControlPlane

from .leaders import Pair, frozen, killed, pair, released, writes
from .run import Environment, Run
from .workloads import WORKLOADS

pytestmark = pytest.mark.apiserver

#: The limits of the promise, and a margin for a busy machine.
FAILOVER, RELEASE, SLACK = 17.0, 2.0, 3.0
RBAC = "rbac.authorization.k8s.io"
RULES = f"/apis/{RBAC}/v1"
#: The subject of the replica behind the proxy.
MASTER = ("behind-the-door", ("system:masters",))
#: The oracles that ask for safety; two leaders may write a little more often than one.
SAFETY = tuple(f"V{number} " for number in range(1, 7))


@pytest.fixture
def plane(second_server: ControlPlane) -> ControlPlane:
    """A control plane whose operators have one namespace each."""
    return second_server


@pytest.mark.fault("G1")
def test_when_the_leader_is_killed_another_acts_in_time(plane: ControlPlane, tmp_path: Path):
    assert killed(plane, "killed", tmp_path) <= FAILOVER + SLACK


@pytest.mark.fault("G1")
def test_when_the_leader_ends_another_acts_at_once(plane: ControlPlane, tmp_path: Path):
    assert released(plane, "released", tmp_path) <= RELEASE + SLACK


@pytest.mark.fault("G2")
def test_a_leader_frozen_in_the_middle_of_a_job_writes_nothing_when_it_continues(plane, tmp_path: Path):
    before, after, pods = frozen(plane, "frozen", tmp_path)
    assert before < 120, "it was frozen too late"
    assert (after, pods) == ([], 60)


@pytest.mark.fault("E1", "G3")
def test_a_leader_that_cannot_renew_stops_before_another_begins(plane: ControlPlane, tmp_path: Path):
    """Only its requests about the Lease fail: it could write, and must not."""
    with pair(plane, "cut", tmp_path) as found, FaultProxy.start(plane.kubeconfig_for(*MASTER)) as proxy:
        third = begin_behind(proxy, found, tmp_path)
        found.first.operator.stop()
        found.second.operator.stop()
        eventually(lambda: found.user.holder() == "behind", 30)
        found.first.operator.start()
        cut = time.time()
        proxy.default.on_write = proxy.default.on_read = without_leases
        number = 0
        while found.user.holder() == "behind":
            found.job(f"j-{(number := number + 1)}")
            time.sleep(0.3)
        taken = time.time()
        time.sleep(3)
        last = max(one.at for one in writes(plane, MASTER[0]))
        assert cut < last <= cut + 12.5, "it continued for as long as it was safe, and no longer"
        assert last < taken
        assert min(one.at for one in found.first.writes(cut)) >= last
        assert "lease trainshed: lost" in third.log.read_text()
        third.kill()


async def without_leases(request: Request, forward: Forward) -> Answer:
    return refusal(404, "NotFound") if request.plural == "leases" else await forward()


def begin_behind(proxy: FaultProxy, found: Pair, folder: Path) -> Operator:
    """A third replica, whose requests go through a proxy."""
    home = folder / "behind"
    home.mkdir()
    namespace = found.user.namespace
    words = (f"--namespace={namespace}", f"--lease-namespace={namespace}", "--lease-identity=behind")
    return Operator(proxy.kubeconfig(home), home, *words).start()


@pytest.mark.fault("G4")
@pytest.mark.parametrize("edit", ["deleted", "taken by an unknown holder", "without a holder"])
def test_after_any_edit_of_the_lease_one_leads_again(plane: ControlPlane, tmp_path: Path, edit: str):
    with pair(plane, f"edit-{edit.split(maxsplit=1)[0]}", tmp_path) as found:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{found.user.namespace}/leases/trainshed"
        if edit == "deleted":
            found.user.call("DELETE", path)
        else:
            holder = "unknown" if "unknown" in edit else None
            patch = {"spec": {"holderIdentity": holder, "renewTime": None, "leaseTransitions": None}}
            found.user.call("PATCH", path, patch, "application/merge-patch+json")
        found.job("after")
        eventually(lambda: found.user.state("TFJob", "after") == "Running", 30)
        # Whom it was taken from may have made the pod before it knew; then both wait until the new holder has run out.
        eventually(lambda: [found.first.leads(), found.second.leads()].count(True) == 1, 30)
        pods = [one for replica in (found.first, found.second) for one in replica.writes() if "create pods" in one.what]
        assert len(pods) == 1


@pytest.mark.fault("G4")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["one-again", "all-again", "taken-away", "pauses", "scales", "fails"])
async def test_two_leaders_by_force_do_no_harm(environment: Environment, name: str):
    """Two operators manage a job together, both without leader election."""
    workload = WORKLOADS[name]
    run = Run(environment, workload.job)
    run.counted = workload.counted
    async with run:
        twin = run.operator(f"{run.namespace}-twin").start(wait=False)
        await asyncio.sleep(1.5)
        await workload.script(run.client)
        await run.rest()
        assert twin.alive
        assert "ready: " in twin.log.read_text()
        twin.kill()
    assert [one for one in run.violations() if one.startswith((*SAFETY, "V10"))] == []


@pytest.mark.fault("G6")
def test_without_the_right_to_its_lease_it_logs_that_and_writes_nothing(plane: ControlPlane, tmp_path: Path):
    user = UserClient.somewhere(plane.kubeconfig, named="forbidden")
    name = {"name": user.namespace}
    rule = [{"apiGroups": ["", "kubeflow.org", "autoscaling", RBAC], "resources": ["*"], "verbs": ["*"]}]
    subject, role = {"kind": "User", "apiGroup": RBAC} | name, {"kind": "ClusterRole", "apiGroup": RBAC} | name
    user.call("POST", f"{RULES}/clusterroles", {"metadata": name, "rules": rule})
    user.call("POST", f"{RULES}/clusterrolebindings", {"metadata": name, "roleRef": role, "subjects": [subject]})
    where = f"--namespace={user.namespace}"
    operator = Operator(plane.kubeconfig_for(user.namespace), tmp_path, where).start(wait=False)
    user.create(tfjob("waiting", Worker=1))
    eventually(lambda: "leases" in operator.log.read_text(), 20)
    time.sleep(4)
    assert operator.alive
    said = f'leases.coordination.k8s.io "trainshed" is forbidden: User "{user.namespace}"'
    assert said in operator.log.read_text()
    assert user.pods() == []
    assert "status" not in user.job("TFJob", "waiting")
    rule.append({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]})
    user.call("PUT", f"{RULES}/clusterroles/{user.namespace}", {"metadata": name, "rules": rule})
    eventually(lambda: len(user.pods()) == 1, 20)
    assert operator.stop() == 0


@pytest.mark.fault("G6")
def test_a_lease_in_a_missing_namespace_is_logged(plane: ControlPlane, tmp_path: Path):
    user = UserClient.somewhere(plane.kubeconfig, named="homeless")
    words = (f"--namespace={user.namespace}", "--lease-namespace=nowhere")
    operator = Operator(plane.kubeconfig, tmp_path, *words).start()
    user.create(tfjob("waiting", Worker=1))
    eventually(lambda: 'namespaces "nowhere" not found' in operator.log.read_text())
    time.sleep(2)
    assert user.pods() == []
    operator.stop()

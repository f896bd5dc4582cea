"""A gang that is too big, and PodGroups that others change, delete or own (TO-246, TO-266)."""

from __future__ import annotations

import time

import pytest

from support.jobs import KINDS
from support.user_client import MERGE, eventually

from .gangs import BOTH, PT, Gang, a_gang, running
from .row import same

#: A job with two replicas of each kind, and the replicas whose success is the job's.
PAIRS = {
    "TFJob": ({"Worker": 2}, ("worker-0", "worker-1")),
    PT: ({"Master": 1, "Worker": 1}, ("master-0",)),
    "MPIJob": ({"Launcher": 1, "Worker": 1}, ("launcher",)),
    "XGBoostJob": ({"Master": 1, "Worker": 1}, ("master-0",)),
    "PaddleJob": ({"Worker": 2}, ("worker-0", "worker-1")),
    "JAXJob": ({"Worker": 2}, ("worker-0", "worker-1")),
}


@same("TO-246", "a minAvailable that is lowered lowers the group's minMember, and the job completes")
@same("TO-266", "every kind, both schedulers (played by the test): not Running while it wants 10, done with 2")
@pytest.mark.parametrize("scheduler", BOTH)
def test_a_gang_that_is_too_big_waits_until_less_is_asked_for(gangs: dict[str, Gang], scheduler: str):
    found = gangs[scheduler]
    assert set(PAIRS) == set(KINDS)
    for kind, (roles, _) in PAIRS.items():
        found.user.create(a_gang(kind.lower(), kind, policy={"minAvailable": 10}, **roles))
        assert found.groups.spec(kind.lower())["minMember"] == 10
        if scheduler == "volcano":
            found.groups.turn_down(kind.lower())
    time.sleep(15)
    for kind in PAIRS:
        states = found.user.conditions(kind, kind.lower())
        assert "Created" in states
        assert "Running" not in states
        found.user.patch_job(kind, kind.lower(), {"spec": {"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}}})
    for kind, (_, leaders) in PAIRS.items():
        eventually(lambda kind=kind: found.groups.spec(kind.lower())["minMember"] == 2)
        found.let_in(kind.lower())
        eventually(lambda kind=kind: found.user.state(kind, kind.lower()) == "Running", within=20)
        for replica in leaders:
            found.kubelet.end(f"{kind.lower()}-{replica}", 0)
        eventually(lambda kind=kind: found.user.state(kind, kind.lower()) == "Succeeded", within=20)


def test_a_group_that_was_deleted_or_changed_by_hand_is_restored(volcano: Gang):
    running(volcano, "mended")
    path = f"{volcano.groups.path}/mended"
    volcano.user.call("PATCH", path, {"spec": {"minMember": 1}}, MERGE)
    eventually(lambda: volcano.groups.spec("mended")["minMember"] == 3)
    volcano.user.call("DELETE", path)
    eventually(lambda: volcano.groups.get("mended"))
    assert volcano.user.state(PT, "mended") == "Running"
    assert len(volcano.user.pods("mended")) == 3


def test_a_name_that_somebody_elses_group_has_is_reported(volcano: Gang):
    foreign = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "taken"}}
    volcano.user.call("POST", volcano.groups.path, foreign)
    volcano.user.create(a_gang("taken"))
    eventually(lambda: volcano.user.conditions(PT, "taken").get("Blocked", {}).get("reason") == "NameConflict")
    assert volcano.user.pods("taken") == []
    volcano.user.call("DELETE", f"{volcano.groups.path}/taken")
    eventually(lambda: volcano.groups.spec("taken").get("minMember") == 3, within=30)


def test_the_group_that_v1_has_made_is_taken_over_where_it_stands(volcano: Gang):
    wanted = a_gang("v1s", policy={"queue": "other"})
    wanted["spec"]["runPolicy"]["suspend"] = True
    uid = volcano.user.create(wanted)["metadata"]["uid"]
    owner = {"apiVersion": "kubeflow.org/v1", "kind": PT, "name": "v1s", "uid": uid, "controller": True}
    metadata = {"name": "v1s", "ownerReferences": [owner]}
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata}
    theirs = volcano.user.call("POST", volcano.groups.path, group | {"spec": {"minMember": 1, "queue": "first"}})
    volcano.groups.set_phase("v1s", "Running")
    volcano.user.patch_job(PT, "v1s", {"spec": {"runPolicy": {"suspend": False}}})
    eventually(lambda: volcano.user.state(PT, "v1s") == "Running")
    own = volcano.groups.get("v1s")
    assert own["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert own["spec"] == {"minMember": 3, "queue": "first"}

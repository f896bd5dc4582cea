"""Members that are placed together: their PodGroup, and when their pods are made (TO-239 to TO-248)."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from support import Operator
from support.job_events import event_counts
from support.jobs import pod_spec
from support.pods import names
from support.user_client import eventually
from testbed.control_plane import ControlPlane

from .gangs import BOTH, PT, Gang, a_gang, needing, running
from .row import differs, same


@same(
    "TO-239",
    "Volcano: a group of all members in the default queue, and pods only once it is admitted, with its annotation",
)
@pytest.mark.parametrize("phase", ["Inqueue", "Running"])
def test_volcano_is_asked_before_pods_are_made(volcano: Gang, phase: str):
    name = f"plain-{phase.lower()}"
    uid = volcano.user.create(a_gang(name))["metadata"]["uid"]
    group = eventually(lambda: volcano.groups.get(name))
    assert group["spec"] == {"minMember": 3, "queue": "default"}
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (PT, uid, True)
    time.sleep(1)
    assert volcano.user.pods(name) == []
    volcano.groups.set_phase(name, phase)
    pods = eventually(lambda: len(found := volcano.user.pods(name)) == 3 and found)
    assert names(pods) == [f"{name}-master-0", f"{name}-worker-0", f"{name}-worker-1"]
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"volcano"}
    marks = [pod["metadata"]["annotations"] for pod in pods]
    assert {mark["scheduling.k8s.io/group-name"] for mark in marks} == {name}
    assert [mark["volcano.sh/task-spec"] for mark in marks] == ["master", "worker", "worker"]
    eventually(lambda: volcano.user.state(PT, name) == "Running")


@pytest.mark.fault("K3")
@same("TO-240", "minAvailable, queue, priorityClass and minResources are in Volcano's group")
def test_volcanos_group_says_what_was_asked(volcano: Gang):
    asked = {"minAvailable": 2, "queue": "q", "priorityClass": "p", "minResources": {"cpu": "3"}}
    volcano.user.create(a_gang("asked", policy=asked))
    assert volcano.groups.spec("asked") == {
        "minMember": 2,
        "queue": "q",
        "priorityClassName": "p",
        "minResources": {"cpu": "3"},
    }


ADDED = "minResources are added up from requests, or of a resource that has none from its limits"


@pytest.mark.parametrize(
    ("name", "master", "worker", "resources"),
    [
        pytest.param(
            "requests",
            {"requests": {"cpu": "500m"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "4", "memory": "1Gi"}},
            {"cpu": "2500m", "memory": "2Gi"},
            marks=differs("TO-241", "D63", ADDED),
        ),
        pytest.param(
            "limits",
            {"limits": {"memory": "512Mi"}},
            {"limits": {"cpu": "2", "memory": "256Mi"}},
            {"cpu": "4", "memory": "1Gi"},
            marks=differs("TO-241", "D63", ADDED),
        ),
    ],
)
def test_the_least_resources_are_added_up(volcano: Gang, name: str, master: dict, worker: dict, resources: dict):
    volcano.user.create(needing(needing(a_gang(name), "Master", **master), "Worker", **worker))
    assert volcano.groups.spec(name)["minResources"] == resources


@same("TO-242", "while the group has no phase or is Pending there are no pods, and lastReconcileTime is set")
def test_a_job_that_waits_says_why_and_is_otherwise_quiet(volcano: Gang):
    volcano.user.create(a_gang("waits"))
    blocked = eventually(lambda: volcano.user.conditions(PT, "waits").get("Blocked"))
    assert blocked["reason"] == "WaitingForPodGroup"
    assert blocked["message"] == "PodGroup waits has not been admitted: it has no phase yet"
    since = volcano.user.job(PT, "waits")["status"]["lastReconcileTime"]
    volcano.groups.turn_down("waits")
    why = "PodGroup waits has not been admitted: its phase is Pending (NotEnoughResources: no room for 10)"
    eventually(lambda: volcano.user.conditions(PT, "waits")["Blocked"]["message"] == why)
    before = volcano.user.job(PT, "waits"), volcano.groups.get("waits")
    time.sleep(3)
    assert (volcano.user.job(PT, "waits"), volcano.groups.get("waits")) == before
    assert before[0]["status"]["lastReconcileTime"] == since
    assert volcano.user.pods("waits") == []
    assert volcano.user.conditions(PT, "waits")["Created"]["status"] == "True"
    volcano.let_in("waits")
    eventually(lambda: volcano.user.state(PT, "waits") == "Running")
    assert "Blocked" not in volcano.user.conditions(PT, "waits")
    assert "lastReconcileTime" not in volcano.user.job(PT, "waits")["status"]


@same("TO-243", "scheduler-plugins: a group with a time-out, and pods at once, marked as its by a label")
def test_the_coscheduling_plugin_finds_the_pods_there(plugins: Gang):
    plugins.user.create(a_gang("coscheduled", policy={"scheduleTimeoutSeconds": 60, "queue": "q"}))
    assert plugins.groups.spec("coscheduled") == {"minMember": 3, "scheduleTimeoutSeconds": 60}
    pods = eventually(lambda: len(found := plugins.user.pods("coscheduled")) == 3 and found)
    assert {pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for pod in pods} == {"coscheduled"}
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"scheduler-plugins"}
    eventually(lambda: plugins.user.state(PT, "coscheduled") == "Running")


KEPT = "another schedulerName of a template is kept, with a warning"


@pytest.mark.parametrize(
    ("name", "master", "worker", "warned"),
    [
        pytest.param("none", None, None, False, marks=same("TO-244", KEPT)),
        pytest.param("own", "scheduler-plugins", "scheduler-plugins", False, marks=same("TO-244", KEPT)),
        pytest.param("one", None, "other", True, marks=same("TO-244", KEPT)),
        pytest.param("all", "other", "other", True, marks=same("TO-244", KEPT)),
    ],
)
def test_another_scheduler_is_kept_and_warned_of(
    plugins: Gang, name: str, master: str | None, worker: str | None, warned: bool
):
    wanted = a_gang(f"named-{name}")
    for role, scheduler in (("Master", master), ("Worker", worker)):
        pod_spec(wanted, role).update({"schedulerName": scheduler} if scheduler else {})
    plugins.user.create(wanted)
    eventually(lambda: plugins.user.state(PT, f"named-{name}") == "Running")
    found = [pod["spec"]["schedulerName"] for pod in plugins.user.pods(f"named-{name}")]
    assert found == [master or "scheduler-plugins", *[worker or "scheduler-plugins"] * 2]

    def warnings() -> list[str]:
        events = plugins.user.events(f"named-{name}")
        return [kind for kind, reason, _ in events if reason == "SetPodTemplateSchedulerName"]

    if warned:
        eventually(warnings)
    assert warnings() == ["Warning"] * warned


GONE = "the group goes when the job is over or suspended"


@same("TO-245", GONE)
@pytest.mark.parametrize("scheduler", BOTH)
def test_the_group_is_deleted_at_the_end_of_the_job_with_one_event_of_each_reason(
    gangs: dict[str, Gang], scheduler: str
):
    found = gangs[scheduler]
    running(found, "ends")
    found.kubelet.end("ends-master-0", 0)
    eventually(lambda: found.user.state(PT, "ends") == "Succeeded")
    eventually(lambda: found.groups.get("ends") is None)
    ends, gone = found.user.job(PT, "ends"), ("Normal", "SuccessfulDeletePodGroup", "Deleted PodGroup: ends")
    eventually(lambda: gone in event_counts(found.user, ends))
    time.sleep(1)
    counts = Counter({line: count for line, count in event_counts(found.user, ends).items() if "PodGroup" in line[2]})
    terminated = ("Normal", "JobTerminated", "Job has been terminated. Deleting PodGroup")
    assert counts == {gone: 1, terminated: 1}


@same("TO-245", GONE)
@pytest.mark.parametrize("scheduler", BOTH)
def test_the_group_goes_with_a_suspension_and_comes_back_with_the_job(gangs: dict[str, Gang], scheduler: str):
    found = gangs[scheduler]
    running(found, "rests")
    first = found.groups.get("rests")["metadata"]["uid"]
    found.user.patch_job(PT, "rests", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: found.groups.get("rests") is None and found.user.pods("rests") == [])
    found.user.patch_job(PT, "rests", {"spec": {"runPolicy": {"suspend": False}}})
    found.let_in("rests")
    eventually(lambda: found.user.state(PT, "rests") == "Running")
    assert found.groups.get("rests")["metadata"]["uid"] != first


@same("TO-247", "with the flag and without the CRD the operator ends at once, its code not 0")
@pytest.mark.parametrize("scheduler", BOTH)
def test_without_the_groups_of_the_scheduler_nothing_begins(server: ControlPlane, tmp_path: Path, scheduler: str):
    operator = Operator(server.kubeconfig, tmp_path, f"--gang-scheduler-name={scheduler}").start(wait=False)
    assert operator.wait_until_over() == 1
    log = operator.log.read_text()
    assert f"--gang-scheduler-name={scheduler}: the API server does not serve PodGroup in scheduling." in log
    assert "install its CRD first" in log
    assert operator.complaints() == []


@same("TO-248", "the annotations of a job are those of its group")
@pytest.mark.parametrize("scheduler", BOTH)
def test_the_annotations_of_a_job_are_its_groups(gangs: dict[str, Gang], scheduler: str):
    found = gangs[scheduler]
    wanted = a_gang("annotated")
    wanted["metadata"]["annotations"] = {"example.com/team": "a", "volcano.sh/sla-waiting-time": "1h"}
    found.user.create(wanted)
    annotations = eventually(lambda: found.groups.get("annotated"))["metadata"]["annotations"]
    assert annotations.items() >= wanted["metadata"]["annotations"].items()


def test_none_is_the_name_of_no_scheduler(server: ControlPlane, tmp_path: Path):
    flags = ("--no-leader-elect", "--namespace=nowhere", "--gang-scheduler-name=None")
    operator = Operator(server.kubeconfig, tmp_path, *flags).start()
    assert operator.stop() == 0

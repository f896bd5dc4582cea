"""Jobs as gangs of the real KAI: its pod-grouper makes the PodGroups, its scheduler and binder place the pods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from docs import how_to
from docs.commands import ROOT
from support import gang_schedulers
from support.gang_cluster import KaiGroups, OwnGang, SimulatedGangCluster, prepare
from support.gang_scenarios import (
    test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why,
    test_a_gang_that_restarts_keeps_its_group,
    test_a_running_gang_grows_and_shrinks,
    test_of_two_gangs_that_do_not_fit_together_one_runs_after_the_other,
    test_of_two_waiting_gangs_the_one_of_higher_priority_runs_first,
    test_with_a_smaller_minimum_the_rest_of_a_gang_may_wait,
    test_without_the_flag_all_pods_of_a_gang_that_the_user_made_start_at_once,
)
from support.gang_schedulers import KAI_QUEUES, kai_queue
from support.jobs import job, pod_spec
from support.kubectl import kubectl
from support.operator import Operator
from support.user_client import always, eventually

from .conftest import Bed

__all__ = [
    "test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why",
    "test_a_gang_that_restarts_keeps_its_group",
    "test_a_running_gang_grows_and_shrinks",
    "test_of_two_gangs_that_do_not_fit_together_one_runs_after_the_other",
    "test_of_two_waiting_gangs_the_one_of_higher_priority_runs_first",
    "test_with_a_smaller_minimum_the_rest_of_a_gang_may_wait",
    "test_without_the_flag_all_pods_of_a_gang_that_the_user_made_start_at_once",
]

#: The scheduler takes minutes to build.
pytestmark = pytest.mark.long
GROUPS = "scheduling.run.ai/v2alpha2"
QUEUE_LABEL = "kai.scheduler/queue"
#: Jobs of three pods of the kinds that KAI knows.
ROLES = {
    "TFJob": {"PS": 1, "Worker": 2},
    "PyTorchJob": {"Master": 1, "Worker": 2},
    "MPIJob": {"Launcher": 1, "Worker": 2},
    "XGBoostJob": {"Master": 1, "Worker": 2},
    "JAXJob": {"Worker": 3},
}


class KaiCluster(KaiGroups, SimulatedGangCluster):
    """A user's jobs of all kinds that KAI knows."""

    def submit_kind(self, kind: str, name: str, *, labels: dict[str, str] | None = None, **roles: int) -> None:
        """Create a job of a kind, with one CPU for each pod."""
        body = job(kind, name, **roles)
        body["metadata"]["labels"] = labels or {}
        for role in roles:
            pod_spec(body, role)["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        self.user.create(body)


@pytest.fixture(scope="module")
def scheduler(bed: Bed) -> Iterator[None]:
    """KAI beside the control plane, with nodes."""
    prepare(bed.kubeconfig)
    with gang_schedulers.kai(bed.plane, bed.folder / "kai"):
        yield


@pytest.fixture(scope="module")
def operator_flags() -> tuple[str, ...]:
    return ("--gang-scheduler-name=kai-scheduler",)


@pytest.fixture
def gang(bed: Bed, scheduler: None, operator: Operator) -> Iterator[KaiCluster]:
    """A user's part of the cluster."""
    with KaiCluster(bed.kubeconfig, GROUPS) as cluster:
        yield cluster


@pytest.fixture
def why() -> str:
    return "Unschedulable: 5 of 5 replicas are not running"


@pytest.fixture
def own_gang() -> OwnGang:
    return OwnGang(fields={"schedulerName": "kai-scheduler"})


@pytest.mark.parametrize("kind", ROLES)
def test_a_job_of_each_known_kind_is_one_gang_of_all_its_pods(gang: KaiCluster, kind: str) -> None:
    gang.submit_kind(kind, "mnist", **ROLES[kind])
    eventually(lambda: gang.user.state(kind, "mnist") == "Running", 60)
    group = gang.group("mnist")
    assert group
    assert group["metadata"]["ownerReferences"][0]["kind"] == kind
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (3, "default-queue")
    assert gang.bound("mnist") == 3


def test_the_pods_of_a_paddle_job_are_no_gang(gang: KaiCluster) -> None:
    gang.submit_kind("PaddleJob", "mnist", Worker=2)
    eventually(lambda: gang.user.state("PaddleJob", "mnist") == "Running", 60)
    groups = [gang.group(f"mnist-worker-{index}") or {} for index in range(2)]
    assert [group["spec"]["minMember"] for group in groups] == [1, 1]


def test_the_queue_and_the_priority_of_the_policy_are_those_of_the_group(gang: KaiCluster) -> None:
    name = f"small-{gang.user.namespace}"
    gang.user.call("POST", "/apis/scheduling.run.ai/v2/queues", kai_queue(name, next(iter(KAI_QUEUES)), cpus=2))
    gang.submit("allowed", 2, queue=name, priorityClass="build")
    eventually(lambda: gang.runs("allowed", 2), 40)
    spec = (gang.group("allowed") or {})["spec"]
    assert (spec["queue"], spec["priorityClassName"]) == (name, "build")
    gang.submit("waits", 2, queue=name)
    eventually(lambda: gang.blocked("waits").startswith("Unschedulable: 2 of 2 replicas are not running"), 60)
    print("Blocked:", gang.blocked("waits"))
    gang.finish("allowed")
    eventually(lambda: gang.runs("waits", 2), 60)


def test_a_role_without_a_number_of_replicas_gets_no_group_and_an_event_of_the_pod_says_so(gang: KaiCluster) -> None:
    gang.user.create(job("TFJob", "mnist", Worker=None))
    eventually(lambda: gang.user.pods("mnist"), 20)
    why = "doesn't allow for 0 Worker pods. Please fix the replica field"
    eventually(lambda: [event for event in gang.user.core("events") if why in event["message"]], 30)
    always(lambda: gang.bound("mnist") == 0, 3)


def test_a_gang_that_has_shrunk_is_not_evicted_after_a_minute(gang: KaiCluster) -> None:
    gang.submit("shrunk", 4)
    eventually(lambda: gang.runs("shrunk", 4), 40)
    gang.scale("shrunk", 2)
    eventually(lambda: len(gang.uids("shrunk")) == 2, 20)
    left = gang.uids("shrunk")
    always(lambda: gang.uids("shrunk") == left, 75, every=1)


def test_the_example_of_the_documentation_runs_in_its_queue(bed: Bed, gang: KaiCluster) -> None:
    page = how_to.code(ROOT / "docs" / "gang-scheduling.md", "yaml")
    blocks = [block for block in page if "scheduling.run.ai" in block or QUEUE_LABEL in block]
    text = "---\n".join(blocks).replace("team-a", gang.user.namespace)
    done = kubectl(bed.plane, gang.user, "apply", "--validate=strict", "-f", "-", text=text)
    assert done.returncode == 0, done.stderr
    eventually(lambda: gang.user.state("PyTorchJob", "mnist") == "Running", 60)
    example = next(item for item in yaml.safe_load_all(text) if item["kind"] == "PyTorchJob")
    assert (gang.group("mnist") or {})["spec"]["queue"] == example["metadata"]["labels"][QUEUE_LABEL]

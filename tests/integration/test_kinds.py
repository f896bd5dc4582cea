"""A job of each of the younger kinds on a real API server: its pods in their order, their environment, its end."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from support.fake_kubelet import FakeKubelet
from support.jobs import job, pod_spec, smallest
from support.pods import env, names
from support.user_client import UserClient, eventually

pytestmark = pytest.mark.usefixtures("shared_operator")


@dataclass(frozen=True)
class Case:
    """A job, the pods that decide about it, and a part of the environment of worker 1."""

    kind: str
    roles: dict[str, int]
    decide: tuple[str, ...]
    told: dict[str, str]

    @property
    def pods(self) -> list[str]:
        """The names of its pods, in order."""
        return sorted(f"a-{role.lower()}-{index}" for role, count in self.roles.items() for index in range(count))

    def create(self, user: UserClient, **policy: object) -> None:
        """Create it."""
        user.create(job(self.kind, "a", policy=policy, **self.roles))


SERVED, WORKERS = {"Master": 1, "Worker": 2}, {"Worker": 2}
PEERS = ("a-worker-0", "a-worker-1")
CASES = [
    Case("XGBoostJob", SERVED, ("a-master-0",), {"RANK": "2", "WORKER_ADDRS": "a-worker-0,a-worker-1"}),
    Case("PaddleJob", SERVED, ("a-master-0",), {"PADDLE_MASTER": "a-master-0:36543", "PADDLE_NNODES": "3"}),
    Case("PaddleJob", WORKERS, PEERS, {"PADDLE_MASTER": "a-worker-0:36543", "PADDLE_RANK": "1"}),
    Case("JAXJob", WORKERS, PEERS, {"COORDINATOR_ADDRESS": "a-worker-0", "PROCESS_ID": "1"}),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind} {' '.join(case.roles)}")


def pod(user: UserClient, name: str) -> dict:
    """A pod."""
    return next(found for found in user.pods() if found["metadata"]["name"] == name)


@each_case
def test_a_job_runs_and_succeeds(user: UserClient, kubelet: FakeKubelet, case: Case):
    case.create(user)
    eventually(lambda: names(user.pods()) == case.pods, 30)
    eventually(lambda: names(user.core("services")) == case.pods)
    assert case.told.items() <= env(pod(user, "a-worker-1")).items()
    eventually(lambda: user.state(case.kind, "a") == "Running")
    for name in case.decide:
        kubelet.end(name, 0)
    eventually(lambda: user.state(case.kind, "a") == "Succeeded")
    served = case.roles == SERVED
    words = "a is successfully" if served else f"{user.namespace}/a successfully"
    assert user.conditions(case.kind, "a")["Succeeded"]["message"] == f"{case.kind} {words} completed."


@each_case
def test_a_job_is_suspended_and_resumed(user: UserClient, kubelet: FakeKubelet, case: Case):
    case.create(user, suspend=True)
    eventually(lambda: user.state(case.kind, "a") == "Suspended")
    assert user.pods() == []
    for suspend, state in ((False, "Running"), (True, "Suspended"), (False, "Running")):
        user.patch_job(case.kind, "a", {"spec": {"runPolicy": {"suspend": suspend}}})
        eventually(lambda state=state: user.state(case.kind, "a") == state)
        eventually(lambda suspend=suspend: names(user.pods()) == ([] if suspend else case.pods))


def test_the_workers_of_an_xgboostjob_are_created_after_its_master(user: UserClient):
    with FakeKubelet(user, script=lambda _name: "") as quiet:
        user.create(job("XGBoostJob", "a", **SERVED))
        eventually(lambda: quiet.created)
        assert names(user.pods()) == ["a-master-0"]
    with FakeKubelet(user):
        eventually(lambda: names(user.pods()) == ["a-master-0", "a-worker-0", "a-worker-1"])


def test_paddles_first_node_has_its_own_ip_as_master(user: UserClient):
    user.create(job("PaddleJob", "a", **WORKERS))
    eventually(lambda: len(user.pods()) == 2)
    first = pod(user, "a-worker-0")
    assert env(first)["PADDLE_MASTER"] == "$(POD_IP_DUMMY):36543"
    dummy = next(item for item in first["spec"]["containers"][0]["env"] if item["name"] == "POD_IP_DUMMY")
    assert dummy["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"


def test_v1s_variables_override_the_users_and_ours_do_not(user: UserClient):
    document = job("JAXJob", "a", Worker=1)
    mine = [{"name": "JAX_PROCESS_ID", "value": "mine"}, {"name": "PROCESS_ID", "value": "mine"}]
    pod_spec(document, "Worker")["containers"][0]["env"] = mine
    user.create(document)
    told = env(eventually(user.pods)[0])
    assert (told["JAX_PROCESS_ID"], told["PROCESS_ID"]) == ("mine", "0")


@pytest.mark.parametrize("kind", ["XGBoostJob", "PaddleJob", "JAXJob"])
def test_a_job_that_another_manages_is_left_alone(user: UserClient, kind: str):
    user.create(smallest(kind, "theirs", policy={"managedBy": "kueue.x-k8s.io/multikueue"}))
    user.create(smallest(kind, "own"))
    (found,) = eventually(user.pods)
    assert found["metadata"]["labels"]["training.kubeflow.org/job-name"] == "own"
    assert "status" not in user.job(kind, "theirs")

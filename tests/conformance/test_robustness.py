"""Refusals, name conflicts, crashes and restarts (TO-231 to TO-238)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support import FakeKubelet, FaultProxy, Operator, Operators, Refused, UserClient
from support.api_request import Answer, Request
from support.fault_proxy import LOST, Forward
from support.jobs import KINDS, job, smallest
from support.pods import names
from support.user_client import always, eventually
from testbed.control_plane import ControlPlane

from .lifecycle import condition_types, create_running, create_with_pods, status, wait_for_conditions
from .row import differs, same

TF = "TFJob"
RUNNING, SUCCEEDED = ["Created", "Running"], ["Created", "-Running", "Succeeded"]


def warnings(user: UserClient, name: str) -> list[str]:
    """Return the Events about pods of a job that could not be created."""
    return [message for kind, reason, message in user.events(name) if (kind, reason) == ("Warning", "FailedCreatePod")]


@pytest.mark.usefixtures("operator")
class TestRefusals:
    """On the operator that all tests share."""

    @pytest.mark.fault("B11")
    @differs("TO-231", "D6", "a quota: warnings and new tries as in v1, and besides the reason in the status")
    def test_a_quota(self, user: UserClient, kubelet: FakeKubelet):
        user.make("resourcequotas", {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}})
        path = f"/api/v1/namespaces/{user.namespace}/resourcequotas/few"
        eventually(lambda: "hard" in user.call("GET", path).get("status", {}))
        user.create(job(TF, "a", Worker=1))
        blocked = eventually(lambda: user.conditions(TF, "a").get("Blocked"), 5)
        assert "exceeded quota: few" in blocked["message"]
        assert condition_types(user, TF, "a") == ["Created"]
        eventually(lambda: any("exceeded quota" in message for message in warnings(user, "a")))
        user.call("DELETE", path)
        eventually(lambda: condition_types(user, TF, "a") == RUNNING, 40)

    @pytest.mark.fault("B4", "J1")
    @differs(
        "TO-232", "D21", "another owner's pod of that name: a warning, the reason in the status, the pod untouched"
    )
    def test_another_owner_of_the_name(self, user: UserClient, kubelet: FakeKubelet):
        container = {"name": "c", "image": "x"}
        foreign = user.make("pods", {"metadata": {"name": "a-worker-0"}, "spec": {"containers": [container]}})
        user.create(job(TF, "a", Worker=1))
        eventually(lambda: any("already exists" in message for message in warnings(user, "a")))
        assert eventually(lambda: user.conditions(TF, "a").get("Blocked"))["reason"] == "NameConflict"
        assert user.pod("a-worker-0")["metadata"]["uid"] == foreign["metadata"]["uid"]
        assert "ownerReferences" not in user.pod("a-worker-0")["metadata"]
        user.delete("pods", "a-worker-0", grace=0)
        eventually(lambda: condition_types(user, TF, "a") == RUNNING, 40)

    @differs("TO-233", "D11", "a name of 60 characters is refused at once, with the length that fits")
    def test_a_long_name(self, user: UserClient):
        with pytest.raises(Refused, match="no more than 54 characters fit") as refused:
            user.create(job(TF, "a" * 60, Worker=1))
        assert refused.value.code == 422

    @same("TO-236", "a deleted job takes all that is its own along, and nothing holds it up")
    def test_all_goes_with_the_job(self, user: UserClient, kubelet: FakeKubelet):
        elastic = job("PyTorchJob", "p", restart="OnFailure", Worker=1)
        metric = {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
        }
        elastic["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 2, "metrics": [metric]}
        create_running(user, elastic, 1)
        create_running(user, job("MPIJob", "m", Launcher=1, Worker=1), 2)
        assert "finalizers" not in user.job("PyTorchJob", "p")["metadata"]
        assert (len(user.pods()), len(owned(user))) == (3, 6)
        user.delete_job("PyTorchJob", "p")
        user.delete_job("MPIJob", "m")
        eventually(lambda: not user.pods() and not owned(user), 60)


def owned(user: UserClient) -> list[str]:
    """All but pods that a controller owns in the namespace."""
    rights = "/apis/rbac.authorization.k8s.io/v1"
    paths = [
        f"/api/v1/namespaces/{user.namespace}/{plural}" for plural in ("services", "configmaps", "serviceaccounts")
    ]
    paths += [f"{rights}/namespaces/{user.namespace}/{plural}" for plural in ("roles", "rolebindings")]
    paths += [f"/apis/autoscaling/v2/namespaces/{user.namespace}/horizontalpodautoscalers"]
    found = [item for path in paths for item in user.call("GET", path)["items"]]
    return [item["metadata"]["name"] for item in found if "ownerReferences" in item["metadata"]]


@pytest.fixture
def lonely(second_server: ControlPlane, request: pytest.FixtureRequest) -> UserClient:
    """A user in a namespace of its own, which no operator manages yet."""
    return UserClient.somewhere(second_server.kubeconfig, named=request.node.name.replace("_", "-")[-40:].strip("-"))


@pytest.fixture
def begin(second_server: ControlPlane, operators: Operators) -> Callable[..., Operator]:
    """Starts operators with flags of their own."""

    def begin(*flags: str, kubeconfig: Path | None = None, wait: bool = True) -> Operator:
        return operators.begin(kubeconfig or second_server.kubeconfig, "--no-leader-elect", *flags, wait=wait)

    return begin


class TestOperators:
    """On operators of their own."""

    @same("TO-234", "killed after it made the pods and before it wrote the status: no pod is made twice")
    def test_a_crash(
        self, second_server: ControlPlane, lonely: UserClient, begin: Callable[..., Operator], tmp_path: Path
    ):
        operator: list[Operator] = []
        with FaultProxy.start(second_server.kubeconfig) as proxy, FakeKubelet(lonely) as kubelet:

            async def killed(request: Request, forward: Forward) -> Answer:
                if request.verb == "PATCH" and request.parts[3] == "status" and operator[0].alive:
                    operator[0].kill()
                return LOST if request.verb == "PATCH" else await forward()

            proxy.default.on_write = killed
            operator.append(begin(f"--namespace={lonely.namespace}", kubeconfig=proxy.kubeconfig(tmp_path)))
            create_with_pods(lonely, job(TF, "a", PS=1, Worker=2), 3)
            eventually(lambda: not operator[0].alive)
            assert status(lonely, TF, "a") == {}
            begin(f"--namespace={lonely.namespace}")
            wait_for_conditions(lonely, TF, "a", *RUNNING)
            assert sorted(kubelet.created) == names(lonely.pods()) == ["a-ps-0", "a-worker-0", "a-worker-1"]

    @pytest.mark.fault("I6")
    @same("TO-235", "restarted: jobs that are over stay as they are, and are deleted at their time")
    def test_a_restart(self, lonely: UserClient, begin: Callable[..., Operator]):
        flag = f"--namespace={lonely.namespace}"
        first = begin(flag)
        with FakeKubelet(lonely) as kubelet:
            create_running(lonely, job(TF, "stays", Worker=1), 1)
            create_running(lonely, job(TF, "goes", policy={"ttlSecondsAfterFinished": 6}, Worker=1), 1)
            for name in ("stays", "goes"):
                kubelet.end(f"{name}-worker-0", 0)
                wait_for_conditions(lonely, TF, name, *SUCCEEDED)
            first.kill()
            before = lonely.job(TF, "stays")
            lonely.delete("pods", "stays-worker-0", grace=0)
            begin(flag)
            eventually(lambda: names(lonely.jobs(TF)) == ["stays"], 15)
            assert lonely.job(TF, "stays") == before
            assert "stays-worker-0" not in names(lonely.pods())

    @same("TO-237", "--namespace: jobs in other namespaces are left alone")
    def test_one_namespace(self, lonely: UserClient, second_server: ControlPlane, begin: Callable[..., Operator]):
        other = UserClient.somewhere(second_server.kubeconfig, named="elsewhere")
        begin(f"--namespace={lonely.namespace}")
        other.create(job(TF, "a", Worker=1))
        create_with_pods(lonely, job(TF, "a", Worker=1), 1)
        always(lambda: not other.pods() and not status(other, TF, "a"))

    @same(
        "TO-238", "--enable-scheme: just these kinds, in any case of letters; an unknown kind is an error at the start"
    )
    def test_some_kinds(self, lonely: UserClient, begin: Callable[..., Operator]):
        begin(f"--namespace={lonely.namespace}", "--enable-scheme=tfjob", "--enable-scheme=MPIJob")
        for kind in KINDS:
            lonely.create(smallest(kind, kind.lower()))
        made = ["mpijob-launcher", "mpijob-worker-0", "tfjob-worker-0"]
        eventually(lambda: names(lonely.pods()) == made)
        always(lambda: names(lonely.pods()) == made)
        wrong = begin("--enable-scheme=nojob", wait=False)
        assert eventually(lambda: not wrong.alive)
        assert wrong.stop() != 0
        assert "nojob" in wrong.log.read_text()

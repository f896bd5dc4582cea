"""The API as clients see it: kinds, columns, subresources; stored and refused fields (TO-001 to 014)."""

from __future__ import annotations

import pytest

from support import FakeKubelet, Refused, UserClient
from support.jobs import KINDS, job, pod_spec, replicas, smallest
from support.kubectl import kubectl
from support.pods import names
from support.user_client import GROUP, MERGE, eventually
from testbed.control_plane import ControlPlane

from .row import differs, same

pytestmark = pytest.mark.usefixtures("operator")

#: The operator leaves such a job alone, so that a test may play its controller.
ELSEWHERE = {"managedBy": "kueue.x-k8s.io/multikueue"}
SCALABLE = ("PyTorchJob", "PaddleJob", "JAXJob")
every_kind = pytest.mark.parametrize("kind", KINDS)


@same("TO-001", "kubeflow.org/v1 serves exactly the six kinds, namespaced, without short names and categories")
def test_the_group_serves_six_kinds(user: UserClient):
    served = {found["kind"]: found for found in user.call("GET", GROUP)["resources"] if "/" not in found["name"]}
    assert set(served) == set(KINDS)
    for kind, found in served.items():
        assert (found["name"], found["singularName"]) == (f"{kind.lower()}s", kind.lower())
        assert found["namespaced"]
        assert "shortNames" not in found
        assert "categories" not in found


@same("TO-002", "kubectl get prints NAME STATE AGE; for MPIJob NAME AGE STATE")
@every_kind
def test_kubectl_prints_v1s_columns(server: ControlPlane, user: UserClient, kind: str):
    user.create(smallest(kind, "a"))
    head = kubectl(server, user, "get", kind.lower()).stdout.splitlines()[0].split()
    assert head == (["NAME", "AGE", "STATE"] if kind == "MPIJob" else ["NAME", "STATE", "AGE"])


@differs("TO-003", "D60", "STATE is the worst that is true; in v1 the type of the last condition, true or not")
@every_kind
def test_the_state_does_not_depend_on_the_order_of_the_conditions(server: ControlPlane, user: UserClient, kind: str):
    user.create(smallest(kind, "a", policy=ELSEWHERE))
    conditions = [{"type": "Created", "status": "True"}, {"type": "Suspended", "status": "False"}]
    status = {"conditions": conditions, "state": "Created"}
    user.call("PATCH", user.path(kind, "a", "status"), {"status": status}, MERGE)
    head, line = (text.split() for text in kubectl(server, user, "get", kind.lower(), "a").stdout.splitlines())
    assert dict(zip(head, line, strict=True))["STATE"] == "Created"


@same("TO-004", "scale says how many replicas are wanted, how many run, and which labels they have")
@pytest.mark.parametrize("kind", SCALABLE)
def test_scale_counts_the_workers(user: UserClient, kind: str):
    with FakeKubelet(user, script=lambda name: "Running" if name == "x-worker-0" else ""):
        user.create(job(kind, "x", Worker=2))
        scale = eventually(lambda: _scale(user, kind, "x") if _scale(user, kind, "x")["status"]["replicas"] else None)
    assert scale["spec"]["replicas"] == 2
    assert scale["status"] == {
        "replicas": 1,
        "selector": f"training.kubeflow.org/job-name=x,training.kubeflow.org/operator-name={kind.lower()}-controller"
        ",training.kubeflow.org/replica-type=worker",
    }


@same("TO-005", "putting scale changes Worker.replicas, and the new worker appears")
@pytest.mark.parametrize("kind", SCALABLE)
def test_scale_can_be_put(user: UserClient, kubelet: FakeKubelet, kind: str):
    user.create(job(kind, "x", Worker=2))
    eventually(lambda: len(user.pods()) == 2)
    scale = _scale(user, kind, "x")
    scale["spec"]["replicas"] = 3
    user.call("PUT", user.path(kind, "x", "scale"), scale)
    assert replicas(user.job(kind, "x"), "Worker")["replicas"] == 3
    eventually(lambda: names(user.pods()) == ["x-worker-0", "x-worker-1", "x-worker-2"])


@same("TO-006", "TFJob, XGBoostJob and MPIJob have no scale")
@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(SCALABLE)))
def test_others_have_no_scale(user: UserClient, kind: str):
    user.create(smallest(kind, "a"))
    with pytest.raises(Refused) as refused:
        _scale(user, kind, "a")
    assert refused.value.code == 404


@same("TO-007", "a job without its replica specs is refused as lacking a required value")
@every_kind
def test_replica_specs_are_required(user: UserClient, kind: str):
    wanted = smallest(kind, "a")
    del wanted["spec"][KINDS[kind].field]
    with pytest.raises(Refused, match=rf"spec\.{KINDS[kind].field}: Required value"):
        user.create(wanted)


@differs("TO-008", "D8", "runPolicy {} is stored with suspend false; a missing one is stored the same way")
@every_kind
def test_a_run_policy_is_filled_in(user: UserClient, kind: str):
    without = smallest(kind, "without")
    del without["spec"]["runPolicy"]
    assert user.create(smallest(kind, "with"))["spec"]["runPolicy"] == {"suspend": False}
    assert user.create(without)["spec"]["runPolicy"] == {"suspend": False}


@same("TO-009", "a queue never changes to another")
@every_kind
def test_a_queue_never_changes(user: UserClient, kind: str):
    user.create(smallest(kind, "a", policy=_queue("initial-queue")))
    with pytest.raises(Refused, match=r"spec\.runPolicy\.schedulingPolicy\.queue is immutable"):
        user.patch_job(kind, "a", {"spec": {"runPolicy": _queue("test")}})
    assert user.job(kind, "a")["spec"]["runPolicy"]["schedulingPolicy"]["queue"] == "initial-queue"


@same("TO-010", "a queue may be added and removed")
@every_kind
def test_a_queue_may_come_and_go(user: UserClient, kind: str):
    user.create(smallest(kind, "a"))
    added = user.patch_job(kind, "a", {"spec": {"runPolicy": _queue("q")}})
    assert added["spec"]["runPolicy"]["schedulingPolicy"] == {"queue": "q"}
    removed = user.patch_job(kind, "a", {"spec": {"runPolicy": _queue(None)}})
    assert removed["spec"]["runPolicy"]["schedulingPolicy"] == {}


@differs("TO-011", "D10", "cleanPodPolicy, restartPolicy, successPolicy, rdzvBackend outside their enums are refused")
@every_kind
def test_policies_are_enumerations(user: UserClient, kind: str):
    unclean = smallest(kind, "a", policy={"cleanPodPolicy": "Foo"})
    unknown = smallest(kind, "a")
    replicas(unknown, KINDS[kind].least[0])["restartPolicy"] = "Foo"
    for wanted, field in ((unclean, "cleanPodPolicy"), (unknown, "restartPolicy"), *_own_enumerations(kind)):
        with pytest.raises(Refused, match=rf'{field}: Unsupported value: "[Ff]oo"'):
            user.create(wanted)


def _own_enumerations(kind: str) -> list[tuple[dict, str]]:
    extra = {
        "TFJob": ("successPolicy", {"successPolicy": "Foo"}),
        "PyTorchJob": ("rdzvBackend", {"elasticPolicy": {"rdzvBackend": "foo"}}),
        "MPIJob": ("cleanPodPolicy", {"cleanPodPolicy": "Foo"}),
    }
    if kind not in extra:
        return []
    field, fields = extra[kind]
    wanted = smallest(kind, "a")
    wanted["spec"].update(fields)
    return [(wanted, field)]


@same("TO-012", "an unknown field of the spec is dropped")
@every_kind
def test_unknown_fields_are_dropped(user: UserClient, kind: str):
    wanted = smallest(kind, "a")
    wanted["spec"]["foo"] = "bar"
    stored = user.create(wanted)["spec"]
    assert "foo" not in stored
    assert stored == user.job(kind, "a")["spec"]


@same("TO-013", "defaults are never written into the job: what was left out stays out")
@pytest.mark.parametrize(
    ("kind", "roles"),
    [
        ("TFJob", {"Worker": None}),
        ("PyTorchJob", {"Worker": None}),
        ("MPIJob", {"Launcher": None, "Worker": None}),
        ("XGBoostJob", {"Master": 1, "Worker": None}),
        ("PaddleJob", {"Worker": None}),
        ("JAXJob", {"Worker": None}),
    ],
)
def test_defaults_are_never_stored(user: UserClient, kubelet: FakeKubelet, kind: str, roles: dict):
    written = job(kind, "a", restart=None, **roles)
    user.create(written)
    eventually(lambda: user.state(kind, "a") == "Running")
    stored = user.job(kind, "a")
    assert stored["spec"]["runPolicy"] == {"suspend": False}
    for role in roles:
        assert set(replicas(stored, role)) == set(replicas(written, role))
        assert pod_spec(stored, role)["containers"] == pod_spec(written, role)["containers"]


@same("TO-014", "the spec is written without its status, the status without its spec")
@every_kind
def test_spec_and_status_are_written_apart(user: UserClient, kind: str):
    stored = user.create(smallest(kind, "a", policy=ELSEWHERE))
    stored["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    stored["spec"]["runPolicy"]["backoffLimit"] = 7
    put = user.call("PUT", user.path(kind, "a"), stored)
    assert "status" not in put
    assert put["spec"]["runPolicy"]["backoffLimit"] == 7
    put["status"] = {"conditions": [{"type": "Created", "status": "True"}]}
    put["spec"]["runPolicy"]["backoffLimit"] = 8
    after = user.call("PUT", user.path(kind, "a", "status"), put)
    assert [condition["type"] for condition in after["status"]["conditions"]] == ["Created"]
    assert after["spec"]["runPolicy"]["backoffLimit"] == 7


def _queue(name: str | None) -> dict:
    return {"schedulingPolicy": {"queue": name}}


def _scale(user: UserClient, kind: str, name: str) -> dict:
    return user.call("GET", user.path(kind, name, "scale"))

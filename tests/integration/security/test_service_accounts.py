"""A job can use only service accounts that its user could use directly: the chart's admission policy."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest
import yaml

from charts.rendering import Document
from support import Refused, UserClient
from support.jobs import KINDS, job, pod_spec, replicas, smallest, tfjob
from support.kubectl import kubectl
from support.user_client import MERGE, eventually
from testbed.control_plane import ControlPlane
from trainshed.frameworks import FRAMEWORKS

from .accounts import People, change, code, parts, pod_patch, refusal, with_account
from .people import May, person

pytestmark = pytest.mark.usefixtures("helm")
GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICY = "trainshed-service-accounts"
EDIT = "trainshed-jobs-edit"
ROLES = [(found.kind, role) for found in FRAMEWORKS for role in found.roles]
CREATES_PODS, USES_BUILDER = May(("create",), "pods"), May(("use",), "serviceaccounts", name="builder")


@pytest.fixture(scope="module", autouse=True)
def policy(server: ControlPlane) -> Iterator[None]:
    """The policy with the chart's default values, in force for this module."""
    admin = UserClient(server.kubeconfig, "default")
    (found, binding), roles = parts()
    for role in roles:
        admin.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    admin.call("POST", f"{GROUP}/validatingadmissionpolicies", found)
    admin.call("POST", f"{GROUP}/validatingadmissionpolicybindings", binding)
    prober = person(server, "default", "prober", role=EDIT)
    eventually(lambda: code(prober, with_account(tfjob("probe", Worker=1), "admin")) == 403, 30)
    yield
    admin.call("DELETE", f"{GROUP}/validatingadmissionpolicybindings/{POLICY}")
    admin.call("DELETE", f"{GROUP}/validatingadmissionpolicies/{POLICY}")
    for role in roles:
        admin.call("DELETE", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role['metadata']['name']}")


@pytest.fixture
def people(server: ControlPlane) -> People:
    """People with and without the right, in a namespace of their own."""
    admin = UserClient.somewhere(server.kubeconfig)
    where = admin.namespace
    admin.make("serviceaccounts", {"metadata": {"name": "admin"}})
    pods_too = person(server, where, "pods-too", CREATES_PODS, role=EDIT)
    as_builder = person(server, where, "as-builder", USES_BUILDER, role=EDIT)
    jobs_only = person(server, where, "jobs-only", role=EDIT)
    wanted = with_account(tfjob("probe", Worker=1), "builder")
    eventually(lambda: [code(person, wanted) for person in (jobs_only, pods_too, as_builder)] == [403, 201, 201])
    return People(admin, jobs_only, pods_too, as_builder)


@pytest.mark.fault("J8")
@pytest.mark.parametrize(("kind", "role"), ROLES, ids=lambda value: value)
def test_an_account_in_any_role_needs_the_right_to_create_pods_or_to_use_it(people: People, kind: str, role: str):
    roles = dict.fromkeys(dict.fromkeys((*KINDS[kind].least, role)), 1)
    for field in ("serviceAccountName", "serviceAccount"):
        wanted = with_account(job(kind, "new", **roles), "builder", role, field=field)
        assert code(people.jobs_only, wanted) == 403
        assert code(people.pods_too, wanted) == code(people.as_builder, wanted) == code(people.admin, wanted) == 201
        assert code(people.as_builder, with_account(wanted, "admin", role, field=field)) == 403


def test_every_account_is_checked_in_any_number_and_any_spelling_of_roles(server: ControlPlane, people: People):
    roles = ("Chief", "PS", "worker", "Evaluator")
    wanted = tfjob("new", **dict.fromkeys(roles, 1))
    for role in roles:
        wanted = with_account(wanted, role.lower(), role)
    rights = {role: May(("use",), "serviceaccounts", name=role.lower()) for role in roles}
    for role in roles:
        others = [right for other, right in rights.items() if other != role]
        most = person(server, people.admin.namespace, f"all-but-{role.lower()}", *others, role=EDIT)
        eventually(lambda most=most, role=role: f"as the service account {role.lower()}" in refusal(most, wanted))
    everything = person(server, people.admin.namespace, "uses-all", *rights.values(), role=EDIT)
    eventually(lambda: refusal(everything, wanted) == "")


@pytest.mark.parametrize("kind", KINDS)
def test_no_account_or_the_default_one_needs_no_right(people: People, kind: str):
    wanted = smallest(kind, "new")
    assert code(people.jobs_only, wanted) == 201
    assert code(people.jobs_only, with_account(wanted, "default")) == 201
    assert code(people.jobs_only, with_account(wanted, "")) == 201


def test_a_refusal_names_the_missing_right(people: People):
    with pytest.raises(Refused) as refused:
        people.jobs_only.create(with_account(tfjob("new", Worker=1), "builder"))
    assert "run as the service account builder" in str(refused.value)
    assert "the right to create pods in this namespace, or the verb use on that service account" in str(refused.value)


@pytest.mark.parametrize(("newer", "older", "said"), [("default", "admin", 201), ("admin", "default", 403)])
def test_of_both_fields_the_one_counts_that_the_server_uses(people: People, newer: str, older: str, said: int):
    wanted = with_account(with_account(tfjob("new", Worker=1), newer), older, field="serviceAccount")
    assert code(people.jobs_only, wanted) == said
    pod = {"metadata": {"name": "x"}, "spec": pod_spec(wanted, "Worker")}
    made = people.admin.call("POST", f"/api/v1/namespaces/{people.admin.namespace}/pods?dryRun=All", pod)
    assert made["spec"]["serviceAccountName"] == newer


def test_jobs_without_template_roles_or_spec_are_refused_by_the_schema(people: People):
    no_template = tfjob("new", Worker=1)
    del replicas(no_template, "Worker")["template"]
    no_roles, no_spec = tfjob("new"), tfjob("new", Worker=1)
    del no_spec["spec"]
    for wanted in (no_template, no_roles, no_spec):
        assert code(people.jobs_only, wanted) == code(people.admin, wanted)
        assert code(people.jobs_only, wanted) in (201, 422)


def of(part: Document, kind: str = "PyTorchJob", role: str = "Worker") -> Document:
    """A patch of a role."""
    return {"spec": {KINDS[kind].field: {role: part}}}


def pods(kind: str = "PyTorchJob", role: str = "Worker", **spec: object) -> Document:
    """A patch of the pods of a role."""
    return of({"template": {"spec": spec}}, kind, role)


def marks(**metadata: object) -> Document:
    """A patch of the metadata of the workers' pods."""
    return of({"template": {"metadata": metadata}})


def image(kind: str = "PyTorchJob", role: str = "Worker") -> Document:
    """A patch with another image."""
    return pods(kind, role, containers=[{"name": KINDS[kind].container, "image": "mine"}])


GATED = {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}], "schedulerName": "a", "priorityClassName": "b"}
WAITS = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "autoscaling.x-k8s.io/provisioning-class-name": "x"}
#: What a change of a job, one role of which has a strong account, is to a user who may not use it.
FREE, REFUSED = 200, 403
CHANGES = [
    ("suspend", {"spec": {"runPolicy": {"suspend": True}}}, FREE),
    ("run policy", {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 5, "backoffLimit": 1}}}, FREE),
    ("scheduling policy", {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "a"}}}}, FREE),
    ("metadata of the job", {"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}}, FREE),
    ("replicas", of({"replicas": 1}), FREE),
    ("limits of replicas", {"spec": {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}}}, FREE),
    ("placement", pods(nodeSelector={"gpu": "a"}, tolerations=[{"key": "gpu", "operator": "Exists"}], **GATED), FREE),
    ("labels of Kueue", marks(labels={"kueue.x-k8s.io/podset": "worker"}), FREE),
    ("annotations of queues", marks(annotations={"kueue.x-k8s.io/workload": "a", **WAITS}), FREE),
    ("image", image(), REFUSED),
    ("account", pods(serviceAccountName="admin"), REFUSED),
    ("no account", pods(serviceAccountName=None), REFUSED),
    ("account for another role", pods(role="Master", serviceAccountName="builder"), REFUSED),
    ("init container", pods(initContainers=[{"name": "first", "image": "mine"}]), REFUSED),
    ("node", pods(nodeName="mine"), REFUSED),
    ("hostname", pods(hostAliases=[{"ip": "198.18.0.1", "hostnames": ["theirs"]}]), REFUSED),
    ("another role's image", image(role="Master"), REFUSED),
    ("role less", of(None, role="Master"), REFUSED),
    ("labels", marks(labels={"app": "payments"}), REFUSED),
    ("no labels", marks(labels={"kept": None}), REFUSED),
    ("annotations", marks(annotations={"vault.hashicorp.com/agent-inject": "true"}), REFUSED),
    ("no annotations", marks(annotations={"kept": None}), REFUSED),
    ("a label among Kueue's", marks(labels={"kueue.x-k8s.io/podset": "worker", "app": "payments"}), REFUSED),
    ("restart policy", of({"restartPolicy": "OnFailure"}), REFUSED),
    ("rendezvous", {"spec": {"elasticPolicy": {"rdzvHost": "mine.example"}}}, REFUSED),
    ("restarts of torchrun", {"spec": {"elasticPolicy": {"maxRestarts": 3}}}, REFUSED),
    ("processes", {"spec": {"nprocPerNode": "2"}}, REFUSED),
    ("names in DNS", {"metadata": {"annotations": {"trainshed.dev/services": "Job"}}}, REFUSED),
    ("launcher", image("MPIJob", "Launcher"), REFUSED),
    ("entered container", {"spec": {"mainContainer": "other"}}, REFUSED),
    ("slots", {"spec": {"slotsPerWorker": 2}}, REFUSED),
    ("dynamic workers", {"spec": {"enableDynamicWorker": True}}, REFUSED),
]
OTHER_KINDS = {"launcher": "MPIJob", "entered container": "MPIJob", "slots": "MPIJob", "dynamic workers": "TFJob"}


def theirs(people: People, kind: str) -> Document:
    """A job of a user with the right: its workers have an account."""
    roles = {"Worker": 2} | {role: 1 for role in KINDS[kind].least if role != "Worker"}
    wanted = with_account(job(kind, f"theirs-{uuid.uuid4().hex[:6]}", **roles), "builder", "Worker")
    replicas(wanted, "Worker")["template"]["metadata"] = {"labels": {"kept": "a"}, "annotations": {"kept": "a"}}
    people.pods_too.create(wanted)
    return wanted


@pytest.fixture
def running(people: People) -> Document:
    """A running PyTorchJob of a user with the right."""
    return theirs(people, "PyTorchJob")


@pytest.mark.fault("J8")
def test_changes_of_what_runs_as_an_account_or_of_how_it_is_reached_need_the_right(people: People):
    found = {}
    for name, patch, _ in CHANGES:
        wanted = theirs(people, OTHER_KINDS.get(name, "PyTorchJob"))
        found[name] = change(people.jobs_only, wanted, patch), change(people.pods_too, wanted, patch)
    assert found == {name: (verdict, 200) for name, _, verdict in CHANGES}


def test_a_change_of_the_queue_needs_no_right(people: People, running: Document):
    assert change(people.jobs_only, running, {"spec": {"runPolicy": {"suspend": True}}}) == 200
    flavor = {"nodeSelector": {"gpu": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    flavor["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
    admitted = pod_patch(running, "Worker", flavor) | {}
    admitted["spec"]["runPolicy"] = {"suspend": False}
    assert change(people.jobs_only, running, admitted) == 200
    taken_back = pod_patch(running, "Worker", dict.fromkeys(flavor))
    taken_back["spec"]["runPolicy"] = {"suspend": True}
    assert change(people.jobs_only, running, taken_back) == 200


def test_an_added_role_is_checked(people: People):
    wanted = job("PyTorchJob", "grows", Master=1)
    people.jobs_only.create(wanted)
    more = with_account(job("PyTorchJob", "grows", Master=1, Worker=1), "builder", "Worker")["spec"]
    assert change(people.jobs_only, wanted, {"spec": more}) == 403
    assert change(people.as_builder, wanted, {"spec": more}) == 200


@pytest.mark.fault("J8")
def test_existing_jobs_finish_and_are_deleted_as_before(server: ControlPlane, people: People, running: Document):
    writes = May(("patch",), "pytorchjobs/status", group="kubeflow.org")
    operator = person(server, people.admin.namespace, "operator", writes, role=EDIT)
    eventually(lambda: operator.job("PyTorchJob", running["metadata"]["name"]))
    condition = {"type": "Succeeded", "status": "True", "reason": "r", "message": "m"}
    name = running["metadata"]["name"]
    path = people.admin.path("PyTorchJob", name, "status")
    operator.call("PATCH", path, {"status": {"conditions": [condition]}}, MERGE)
    assert "Succeeded" in people.admin.conditions("PyTorchJob", name)
    assert change(people.jobs_only, running, {"metadata": {"finalizers": ["a.b/c"]}}) == 200
    people.jobs_only.delete_job("PyTorchJob", name)
    assert change(people.jobs_only, running, {"metadata": {"finalizers": None}}) == 200
    assert people.admin.job("PyTorchJob", name) is None


def test_the_biggest_jobs_are_within_the_servers_budget(people: People):
    roles = {"Chief": 1, "PS": 40_000, "Worker": 59_998, "Evaluator": 1}
    big = with_account(tfjob("big", **roles), "builder")
    variables = [{"name": f"NAME_{number}", "value": "v" * 60} for number in range(3000)]
    for role in roles:
        pod_spec(big, role)["containers"][0]["env"] = variables
    assert 1_000_000 < len(json.dumps(big)) < 1_500_000
    refused = refusal(people.jobs_only, big)
    assert "run as the service account builder" in refused
    assert refusal(people.as_builder, big) == ""
    people.pods_too.create(big)
    assert change(people.jobs_only, big, {"spec": {"runPolicy": {"suspend": True}}}) == 200
    more = [{"name": "tensorflow", "image": "python:3.11-slim", "env": [*variables, {"name": "ONE", "value": "more"}]}]
    assert change(people.jobs_only, big, pod_patch(big, "Evaluator", {"containers": more})) == 403


@pytest.mark.parametrize(("count", "verdict"), [(990, FREE), (10_000, REFUSED)])
def test_many_annotations_are_within_the_servers_budget(people: People, count: int, verdict: int):
    wanted = with_account(job("PyTorchJob", "marked", Master=1, Worker=1), "builder")
    for role in ("Master", "Worker"):
        many = {f"{number:05}": "" for number in range(count)}
        replicas(wanted, role)["template"]["metadata"] = {"annotations": many}
    people.pods_too.create(wanted)
    assert change(people.jobs_only, wanted, {"spec": {"runPolicy": {"suspend": True}}}) == FREE
    assert change(people.jobs_only, wanted, marks(annotations={"kueue.x-k8s.io/workload": "a"})) == verdict
    assert change(people.jobs_only, wanted, marks(annotations={"a": "b"})) == REFUSED


def test_the_server_reports_no_type_errors_in_the_policy(server: ControlPlane, user: UserClient):
    def checked() -> Document:
        return user.call("GET", f"{GROUP}/validatingadmissionpolicies/{POLICY}").get("status", {})

    status = eventually(lambda: "typeChecking" in (found := checked()) and found, 30)
    assert status["typeChecking"].get("expressionWarnings", []) == []


def test_the_policy_applies_only_to_managed_namespaces(server: ControlPlane, user: UserClient):
    found, _ = parts("namespaces={a,b}", "serviceAccountPolicy.exemptUsers={system:serviceaccount:kubeflow:katib}")
    assert found[0]["spec"]["failurePolicy"] == "Fail"
    (within,) = found[1]["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert (within["operator"], within["values"]) == ("In", ["a", "b"])
    (exempt,) = found[0]["spec"]["matchConditions"]
    assert 'in ["system:serviceaccount:kubeflow:katib"]' in exempt["expression"]
    done = kubectl(server, user, "apply", "--dry-run=server", "-f", "-", text=yaml.safe_dump_all(found))
    assert done.returncode == 0, done.stderr

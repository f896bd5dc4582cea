"""A TrainJob as a job of kubeflow.org: its pods have what Trainer gives them; what is wrong is named by its field."""

from __future__ import annotations

import copy
import re

import pytest
from click.testing import CliRunner

from support.trainjobs import CASES, REFUSED, a_runtime, a_trainjob, converted, example_jobs, patch
from trainshed.api.framework import JobDefaults
from trainshed.cli import cli
from trainshed.manifests import reader, writer
from trainshed.rendering import rendered
from trainshed.trainjob import reading
from trainshed.trainjob.losses import NotConvertible
from trainshed.trainjob.renderer import Role


def in_new_names(text: str) -> str:
    """A text of Trainer with the names of pods as the kinds have them; the rank of a node in place of its index."""
    return re.sub(r"tj-node-0-(\d+)\.tj", r"tj-worker-\1", text)


def environment(role: Role, index: int) -> dict[str, str]:
    """The variables that Trainer gives a pod, with the index of its Job."""
    (container,) = role.containers
    env = {entry["name"]: entry for entry in container.get("env") or ()}
    return {
        name: in_new_names(entry.get("value", "")) if "completion-index" not in str(entry) else str(index)
        for name, entry in env.items()
        if "metadata.uid" not in str(entry)
    }


@pytest.mark.parametrize("name", CASES)
def test_pods_have_what_trainer_gives_them(name):
    trainjob, runtime = CASES[name]
    found = reading.rendered(trainjob, [runtime] if runtime else [], "ns")
    (document,) = reading.converted(trainjob, [runtime] if runtime else [], "ns").documents
    made = rendered(document, "ns", JobDefaults())
    assert made.job.problems == ()
    pods = [item for item in made if item["kind"] == "Pod"]
    roles = sorted(found.roles, key=lambda role: role.name != "launcher")
    assert len(pods) == sum(role.pods for role in roles)
    places = [(role, index) for role in roles for index in range(role.pods)]
    for pod, (role, index) in zip(pods, places, strict=True):
        (container,), (wanted,) = pod["spec"]["containers"], role.containers
        for field in ("image", "command", "args", "resources", "readinessProbe", "securityContext"):
            assert container.get(field) == wanted.get(field)
        have = {entry["name"]: entry.get("value", "") for entry in container.get("env") or ()}
        worker_of_xgboost = document["kind"] == "XGBoostJob" and index
        expected = environment(role, index)
        if document["kind"] == "XGBoostJob":  # whose first pod is the master
            expected = {key: re.sub(r"tj-worker-0", "tj-master-0", value) for key, value in expected.items()}
        no_trainer = trainjob["spec"].get("trainer") is None
        for key, value in expected.items():
            if key.startswith("OMPI_MCA"):
                assert key in have
            else:
                assert have.get(key) == value, key
        assert no_trainer or worker_of_xgboost or "JOB_COMPLETION_INDEX" in have or document["kind"] == "MPIJob"
        assert {part: pod["spec"].get(part) for part in ("nodeSelector", "tolerations", "schedulingGates")} == {
            part: role.template["spec"].get(part) for part in ("nodeSelector", "tolerations", "schedulingGates")
        }


@pytest.mark.parametrize("name", REFUSED)
def test_what_trainer_refuses_is_refused_with_its_field(name):
    trainjob, runtime, path = REFUSED[name]
    with pytest.raises(NotConvertible) as refused:
        reading.converted(trainjob, [runtime] if runtime else [], "ns")
    assert refused.value.path == path


POD = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec"


def with_field(path: str, value: object, document: dict) -> dict:
    made = copy.deepcopy(document)
    *parts, last = path.split(".")
    place = made
    for part in parts:
        place = place.setdefault(part, {})
    place[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("spec", [], "spec"),
        ("spec.trainer", "x", "spec.trainer"),
        ("spec.trainer.numNodes", "2", "spec.trainer.numNodes"),
        ("spec.trainer.numNodes", True, "spec.trainer.numNodes"),
        ("spec.trainer.numNodes", 10**30, "spec.trainer.numNodes"),
        ("spec.trainer.numNodes", 0, "spec.trainer.numNodes"),
        ("spec.trainer.numProcPerNode", -1, "spec.trainer.numProcPerNode"),
        ("spec.trainer.numProcPerNode", "auto", "spec.trainer.numProcPerNode"),
        ("spec.trainer.command", "x", "spec.trainer.command"),
        ("spec.trainer.command", [None], "spec.trainer.command[0]"),
        ("spec.trainer.command", ["x"] * 129, "spec.trainer.command"),
        ("spec.trainer.command", ["tune", "run"], "spec.trainer.command"),
        ("spec.trainer.env", [{"value": "x"}], "spec.trainer.env[0].name"),
        ("spec.trainer.image2", "x", "spec.trainer.image2"),
        ("spec.trainer.resourcesPerNode", {"limits": {"cpu": []}}, "spec.trainer.resourcesPerNode.limits.cpu"),
        ("spec.runtimeRef", {}, "spec.runtimeRef.name"),
        ("spec.runtimeRef", {"name": "none"}, "spec.runtimeRef.name"),
        ("spec.runtimeRef", {"name": "own", "kind": "Pod"}, "spec.runtimeRef.kind"),
        ("spec.runtimePatches", [None], "spec.runtimePatches[0]"),
        ("spec.runtimePatches", [{}], "spec.runtimePatches[0].manager"),
        ("spec.runtimePatches", [patch(containers=[{"name": "x"}])], f"{POD}.containers[0].name"),
        ("spec.managedBy", "me", "spec.managedBy"),
        ("metadata.name", "", "metadata.name"),
        ("metadata.labels", {"a": 1}, "metadata.labels.a"),
    ],
)
def test_a_hostile_trainjob_is_refused_with_its_field(path, value, where):
    with pytest.raises(NotConvertible) as refused:
        reading.converted(with_field(path, value, a_trainjob(trainer={})), [], "ns")
    assert refused.value.path == where


SET = "spec.template.spec"


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("spec.template", None, "runtime: spec.template"),
        (f"{SET}.replicatedJobs", [], f"{SET}.replicatedJobs"),
        (f"{SET}.replicatedJobs", [{"name": "node", "template": None}], f"runtime: {SET}.replicatedJobs[0].template"),
        (f"{SET}.replicatedJobs", [{"name": "node", "template": {}}], f"{SET}.replicatedJobs[node]"),
        (f"{SET}.replicatedJobs", {}, f"runtime: {SET}.replicatedJobs"),
        (f"{SET}.other", 1, f"runtime: {SET}.other"),
        ("spec.mlPolicy", {"torch": {}, "jax": {}}, "spec.mlPolicy"),
        ("spec.mlPolicy", {"flux": {}}, "spec.mlPolicy.flux"),
        ("spec.mlPolicy.numNodes", 10**9, f"{SET}.replicatedJobs[node].parallelism"),
    ],
)
def test_a_hostile_runtime_is_refused_with_its_field(path, value, where):
    with pytest.raises(NotConvertible) as refused:
        reading.converted(a_trainjob("own", {}), [with_field(path, value, a_runtime())], "ns")
    assert refused.value.path.startswith(where)


#: Kinds and jobs that have no way back: roles that differ, an elastic job.
ONE_WAY = ("TFJob", "PaddleJob")


@pytest.mark.parametrize("document", [pytest.param(job, id=name) for name, job in example_jobs()])
def test_an_example_comes_back_as_it_was(document):
    there = converted(document)
    *_, runtime, trainjob = there.documents
    try:
        back = reading.converted(trainjob, [runtime], "ns")
    except NotConvertible:
        assert document["kind"] in ONE_WAY or "trainer" not in trainjob["spec"]
        return
    (again,) = back.documents
    if document["kind"] != again["kind"]:
        assert document["kind"] in (*ONE_WAY, "XGBoostJob") or "elasticPolicy" in document["spec"]
        return
    before, after = (rendered(one, "ns", JobDefaults()) for one in (document, again))
    assert after.job.problems == ()
    lost = {loss.path for loss in (*there.losses, *back.losses)}
    pairs = zip(*([p for p in one if p["kind"] == "Pod"] for one in (before, after)), strict=True)
    for was, now in pairs:
        assert was["spec"]["restartPolicy"] == now["spec"]["restartPolicy"]
        (mine,), (theirs,) = was["spec"]["containers"], now["spec"]["containers"]
        for field in ("image", "args", "resources", "volumeMounts"):
            assert mine.get(field) == theirs.get(field) or document["kind"] == "MPIJob", field
        assert mine.get("command") == theirs.get("command") or document["kind"] == "MPIJob"
        env, new = ({e["name"]: e.get("value") for e in c.get("env") or ()} for c in (mine, theirs))
        changed = {name for name in env if env[name] != new.get(name) and "-0" not in str(env[name])}
        ports = {"MASTER_PORT", "PET_MASTER_PORT", "COORDINATOR_PORT", "JAX_COORDINATOR_ADDRESS"}
        nproc = {"PET_NPROC_PER_NODE"} if "spec.nprocPerNode" in lost else set()
        assert changed - ports - nproc == set() or document["kind"] == "MPIJob"
    policy = document["spec"].get("runPolicy", {})
    for field in ("activeDeadlineSeconds", "suspend", "backoffLimit"):
        assert (
            policy.get(field) == again["spec"]["runPolicy"].get(field)
            or f"spec.runPolicy.{field}" in lost
            or (field == "backoffLimit" and policy.get(field) is None)
        )


def test_trainjobs_are_rendered_and_converted_by_the_command_line():
    text = writer.write([a_trainjob("own", {"numNodes": 2}), a_runtime()])
    result = CliRunner().invoke(cli, ["render", "-f", "-"], input=text)
    assert result.exit_code == 0, result.stderr
    assert [(f.value["kind"], f.value["metadata"]["name"]) for f in reader.documents(result.stdout)] == [
        ("Service", "tj-worker-0"), ("Service", "tj-worker-1"), ("Pod", "tj-worker-0"), ("Pod", "tj-worker-1"),
    ]  # fmt: skip
    assert "differs: TrainJob tj: " in result.stderr
    printed = CliRunner().invoke(cli, ["convert", "-f", "-", "--to", "PyTorchJob", "--strict"], input=text)
    assert (printed.exit_code, "kind: PyTorchJob" in printed.stdout) == (0, True)
    unfit = CliRunner().invoke(cli, ["convert", "-f", "-", "--to", "JAXJob"], input=text)
    assert (unfit.exit_code, unfit.stdout) == (1, "")
    assert "spec.runtimeRef: the policy torch becomes PyTorchJob, and not JAXJob" in unfit.stderr
    wrong = CliRunner().invoke(cli, ["run", "-f", "-"], input=writer.write([a_trainjob("none")]))
    assert (wrong.exit_code, "spec.runtimeRef.name: ClusterTrainingRuntime none" in wrong.stderr) == (1, True)


def lost(runtime: dict, **trainer: object) -> set[str]:
    found = reading.converted(a_trainjob("own", trainer), [runtime], "ns")
    return {loss.path for loss in found.losses if loss.serious}


def test_what_a_job_cannot_have_is_lost_with_its_field():
    job = f"{SET}.replicatedJobs"
    made = a_runtime()
    item = made["spec"]["template"]["spec"]["replicatedJobs"][0]
    fields, template = item["template"]["spec"], item["template"]["spec"]["template"]
    assert lost(made) == set()
    template["spec"]["restartPolicy"] = "Never"
    fields |= {"podFailurePolicy": {"rules": [{"action": "Ignore"}]}, "activeDeadlineSeconds": 5}
    fields["successPolicy"] = {"rules": [{"succeededCount": 1}]}
    made["spec"]["template"]["spec"] |= {"failurePolicy": {"maxRestarts": 3}, "startupPolicy": {"x": 1}}
    made["spec"]["podGroupPolicy"] = {"volcano": {}}
    at = f"runtime: {job}[node].template.spec"
    assert lost(made) == {
        *(f"{at}.{name}" for name in ("podFailurePolicy", "activeDeadlineSeconds", "successPolicy")),
        f"{at}.template.spec.restartPolicy", f"runtime: {SET}.failurePolicy", f"runtime: {SET}.startupPolicy",
        "runtime: spec.podGroupPolicy.volcano",
    }  # fmt: skip
    template["spec"]["restartPolicy"] = "Always"
    with pytest.raises(NotConvertible, match="must be OnFailure or Never"):
        lost(made)
    overridden = {"env": [{"name": "RANK", "value": "7"}, {"name": "WORLD_SIZE", "value": "1"}]}
    where = "result: spec.pytorchReplicaSpecs[Worker].template.spec.containers[0].env"
    assert lost(a_runtime(), **overridden) == {f"{where}[RANK]"}
    named = lost(a_runtime(), args=["tj-node-0-0.tj:29500", "other-tj-node-0-0"])
    assert named == {f"{at}.template.spec.containers[0].args[0]"}


@pytest.mark.parametrize("field", ["podSpecOverrides", "podTemplateOverrides"])
def test_a_field_of_an_earlier_trainer_is_refused_with_what_has_its_place(field):
    with pytest.raises(NotConvertible, match=f"spec.{field}: unknown field; .* has spec.runtimePatches in its place"):
        reading.converted(a_trainjob(**{field: []}), [], "ns")


@pytest.mark.parametrize("command", ["convert", "render", "run"])
@pytest.mark.parametrize("kind", ["TrainJob", "ClusterTrainingRuntime"])
def test_another_version_of_trainer_is_refused_and_not_left_out(command, kind):
    other = {**(a_trainjob() if kind == "TrainJob" else a_runtime()), "apiVersion": "trainer.kubeflow.org/v2"}
    text = writer.write([a_trainjob("own", {}), a_runtime(), other])
    found = CliRunner().invoke(cli, [command, "-f", "-"], input=text)
    assert (found.exit_code, found.stdout) == (1, "")
    assert f": {kind} is read in trainer.kubeflow.org/v1alpha1 alone\n" in found.stderr

"""`trainshed render` prints what the operator would create for the jobs of a file, or why it would not."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from trainshed.cli import cli

EXAMPLES = Path(__file__).parents[3] / "examples"
CONTAINER = {"name": "tensorflow", "image": "x"}


def a_job(name="mnist", *, workers=1, policy=None, **metadata) -> dict:
    group = {"replicas": workers, "template": {"spec": {"containers": [CONTAINER]}}}
    spec = {"tfReplicaSpecs": {"Worker": group}, "runPolicy": policy or {}}
    meta = {"name": name, **metadata} if name else metadata
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": meta, "spec": spec}


def render(*documents: object, arguments: tuple[str, ...] = (), env: dict | None = None) -> Result:
    text = yaml.safe_dump_all(documents)
    return CliRunner().invoke(cli, ["render", "-f", "-", *arguments], input=text, env=env)


def objects(result: Result) -> dict[str, dict]:
    assert result.exit_code == 0, result.output
    return {f"{found['kind']} {found['metadata']['name']}": found for found in yaml.safe_load_all(result.stdout)}


@pytest.mark.parametrize(
    "example", sorted(EXAMPLES.glob("*/*.yaml")), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_every_example_can_be_rendered(example):
    result = CliRunner().invoke(cli, ["render", "-f", str(example)])
    found = objects(result)
    kinds = {name.split()[0] for name in found}
    assert kinds >= ({"Pod", "Role", "RoleBinding"} if "MPIJob" in example.read_text() else {"Pod", "Service"})
    assert all(item["apiVersion"] in ("v1", "rbac.authorization.k8s.io/v1") for item in found.values())
    assert all(item["metadata"]["namespace"] for item in found.values())


def test_a_job_is_rendered_by_its_version():
    group = {"replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}
    spec = {"mpiReplicaSpecs": dict.fromkeys(("Launcher", "Worker"), group)}
    job = {"kind": "MPIJob", "metadata": {"name": "m"}, "spec": spec}
    by_exec = objects(render({"apiVersion": "kubeflow.org/v1", **job}))
    by_ssh = objects(render({"apiVersion": "kubeflow.org/v2beta1", **job}))
    assert "Role m-launcher" in by_exec
    assert {name.split("-ssh-")[0] for name in by_ssh} == {
        "ConfigMap m-config",
        "Secret m",
        "Service m",
        "Pod m-launcher",
        "Pod m-worker-0",
    }
    assert not any("data" in found for found in by_ssh.values() if found["kind"] == "Secret")
    assert render({"apiVersion": "kubeflow.org/v2beta1", **job, "kind": "TFJob"}).exit_code != 0


def test_a_job_is_rendered_to_its_pods_and_services():
    found = objects(render(a_job(workers=2)))
    assert sorted(found) == [
        "Pod mnist-worker-0",
        "Pod mnist-worker-1",
        "Service mnist-worker-0",
        "Service mnist-worker-1",
    ]
    (container,) = found["Pod mnist-worker-1"]["spec"]["containers"]
    (config,) = [variable["value"] for variable in container["env"] if variable["name"] == "TF_CONFIG"]
    assert '"task":{"type":"worker","index":1}' in config
    assert found["Pod mnist-worker-0"]["metadata"]["namespace"] == "default"


def test_the_namespace_is_the_jobs_or_that_of_the_flag():
    arguments = ("--namespace", "ml")
    assert objects(render(a_job(), arguments=arguments))["Pod mnist-worker-0"]["metadata"]["namespace"] == "ml"
    own = objects(render(a_job(namespace="mine"), arguments=arguments))
    assert own["Pod mnist-worker-0"]["metadata"]["namespace"] == "mine"


@pytest.mark.parametrize(
    ("arguments", "env"), [(("--cluster-domain", "tf.test"), {}), ((), {"CUSTOM_CLUSTER_DOMAIN": "tf.test"})]
)
def test_the_cluster_domain_can_be_set(arguments, env):
    result = render(a_job(workers=2), arguments=arguments, env=env)
    assert "mnist-worker-0.default.svc.tf.test:2222" in result.stdout


def test_other_objects_are_ignored():
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scripts"}}
    newer = a_job("newer") | {"apiVersion": "kubeflow.org/v2"}
    listed = {"apiVersion": "v1", "kind": "List", "items": [a_job("inside"), other, 5]}
    assert sorted(objects(render(other, a_job("one"), None, newer, listed))) == [
        "Pod inside-worker-0",
        "Pod one-worker-0",
        "Service inside-worker-0",
        "Service one-worker-0",
    ]


def test_a_suspended_job_is_rendered_as_if_resumed():
    policy = {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue"}
    assert "Pod mnist-worker-0" in objects(render(a_job(policy=policy)))


def test_a_generated_name_ends_with_a_placeholder():
    assert "Pod sweep-xxxxx-worker-0" in objects(render(a_job(None, generateName="sweep-")))


def test_an_invalid_job_is_reported_and_the_others_are_rendered():
    result = render(a_job("bad", workers=-1), a_job("good"))
    assert result.exit_code == 1
    assert result.stderr.startswith("TFJob bad: spec.tfReplicaSpecs.Worker.replicas: Invalid value")
    assert "good-worker-0" in result.stdout
    assert "bad" not in result.stdout


@pytest.mark.parametrize("metadata", [None, "nonsense", {}, 5])
@pytest.mark.parametrize("spec", [None, "nonsense", {}, {"tfReplicaSpecs": {"Worker": None}}])
def test_malformed_documents_are_reported(metadata, spec):
    result = render({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec})
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "TFJob (no name): spec" in result.stderr


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: [", "is not valid YAML"),
        ("", "contains no job; known kinds are TFJob, PyTorchJob"),
        ("5", "contains no job"),
    ],
)
def test_a_file_without_jobs_is_an_error(text, error):
    result = CliRunner().invoke(cli, ["render", "-f", "-"], input=text)
    assert result.exit_code == 1
    assert error in result.stderr

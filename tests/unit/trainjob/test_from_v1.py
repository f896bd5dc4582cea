"""A job of kubeflow.org as a TrainJob: each pod has the environment that it had, and every loss is named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from support.trainjobs import converted, example_jobs
from trainshed.api.framework import JobDefaults
from trainshed.cli import cli
from trainshed.manifests import reader, writer
from trainshed.rendering import rendered
from trainshed.trainjob import from_v1
from trainshed.trainjob.losses import NotConvertible
from trainshed.trainjob.replicated_jobs import POLICIES

INDEXES = ("job-completion-index", "job-index", "job-global-index")


def documents(text: str) -> list[dict]:
    return [found.value for found in reader.documents(text)]


def a_job(kind: str = "PyTorchJob", *, counts: dict | None = None, differ=False, **spec) -> dict:
    field = {"PyTorchJob": "pytorch", "XGBoostJob": "xgb", "TFJob": "tf", "PaddleJob": "paddle", "JAXJob": "jax"}[kind]
    container = {"name": {"xgb": "xgboost", "tf": "tensorflow"}.get(field, field), "image": "x"}
    groups = {
        role: {
            "replicas": count,
            "restartPolicy": spec.pop(f"{role}Restart", "Never"),
            "template": {"spec": {"containers": [{**container, **({"args": [role]} if differ else {})}]}},
        }
        for role, count in (counts or {"Worker": 2}).items()
    }
    head = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "j", "namespace": "ns"}}
    return {**head, "spec": {f"{field}ReplicaSpecs": groups, **spec}}


def nodes(conversion: from_v1.Conversion) -> list[tuple[str, dict[str, str]]]:
    """Host and resolved environment of each pod that Jobs would make of the runtime, in the order of the roles."""
    *_, runtime, trainjob = conversion.documents
    name, before, found = trainjob["metadata"]["name"], 0, []
    policy = runtime["spec"].get("mlPolicy")
    for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        merged = policy is not None and "mpi" not in policy
        parallel = trainjob["spec"]["trainer"]["numNodes"] if merged else job["template"]["spec"]["parallelism"]
        for replica in range(job.get("replicas", 1)):
            for index in range(parallel):
                values = dict(zip(INDEXES, (index, replica, before + replica), strict=True))
                env: dict[str, str] = {}
                for entry in job["template"]["spec"]["template"]["spec"]["containers"][0].get("env") or ():
                    field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
                    known = [value for key, value in values.items() if f"/{key}'" in field]
                    value = str(known[0]) if known else entry.get("value", json.dumps(entry.get("valueFrom")))
                    env[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda got, env=env: env.get(got[1], got[0]), value)
                found.append((f"{name}-{job['name']}-{replica}-{index}.{name}", env))
        before += job.get("replicas", 1)
    return found


def before_and_after(document: dict) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """The environment of each pod as it was, with the new host names, and as it is."""
    found = [item for item in rendered(document, "ns", JobDefaults()) if item["kind"] == "Pod"]
    after = nodes(converted(document))
    assert len(found) == len(after)
    hosts = {pod["metadata"]["name"]: host for pod, (host, _) in zip(found, after, strict=True)}
    pattern = re.compile(rf"({'|'.join(sorted(map(re.escape, hosts), key=len, reverse=True))})(\.\w+\.svc)?(?![\w-])")
    for pod, (_, env) in zip(found, after, strict=True):
        was = {
            entry["name"]: pattern.sub(
                lambda got: hosts[got[1]], entry.get("value", json.dumps(entry.get("valueFrom")))
            )
            for entry in pod["spec"]["containers"][0].get("env") or ()
        }
        env.pop("TRAINSHED_REPLICA_INDEX", None)
        resolved = {key: re.sub(r"\$\((\w+)\)", lambda got, was=was: was.get(got[1], got[0]), was[key]) for key in was}
        yield resolved, env


CASES = [
    *example_jobs(),
    *((f"{kind} {counts} {differ}", a_job(kind, counts=counts, differ=differ)) for kind, counts, differ in (
        ("PyTorchJob", {"Master": 1, "Worker": 3}, False),
        ("PyTorchJob", {"Master": 1, "Worker": 12}, True),
        ("PyTorchJob", {"Master": 1, "Worker": 1}, True),
        ("PyTorchJob", {"Worker": 1}, False),
        ("XGBoostJob", {"Master": 1, "Worker": 11}, False),
        ("XGBoostJob", {"Master": 1, "Worker": 2}, True),
        ("TFJob", {"Chief": 1, "PS": 2, "Worker": 12, "Evaluator": 1}, True),
        ("TFJob", {"Worker": 1}, False),
        ("TFJob", {"PS": 40, "Worker": 40}, False),
        ("PaddleJob", {"Worker": 3}, False),
        ("PaddleJob", {"Master": 1, "Worker": 2}, False),
        ("JAXJob", {"Worker": 12}, False),
    )),
]  # fmt: skip


@pytest.mark.parametrize("document", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_each_pod_has_the_environment_that_it_had(document):
    if document["kind"] == "MPIJob":
        conversion = converted(document)
        launcher = next(job for job in conversion.documents[-2]["spec"]["template"]["spec"]["replicatedJobs"]
                        if job["name"] == "launcher")  # fmt: skip
        assert launcher["template"]["spec"]["template"]["spec"]["containers"][0]["name"] == "node"
        return
    policy = converted(document).documents[-2]["spec"].get("mlPolicy", {})
    dropped = next((set(POLICIES[name]) for name in policy if name in POLICIES), set())
    for was, env in before_and_after(document):
        assert {key: value for key, value in was.items() if key not in dropped} == env


def test_an_unset_policy_is_a_difference_and_a_set_one_a_loss():
    lost = {key: {loss.path for loss in converted(a_job(runPolicy=policy)).losses if loss.serious} for key, policy in {
        "unset": {}, "none": {"cleanPodPolicy": "None"}, "running": {"cleanPodPolicy": "Running"},
        "all": {"cleanPodPolicy": "All"}, "ttl": {"ttlSecondsAfterFinished": 1}}.items()}  # fmt: skip
    clean, processes = {"spec.runPolicy.cleanPodPolicy"}, {"spec.nprocPerNode"}
    expected = {"unset": set(), "none": clean, "running": set(), "all": clean}
    assert lost == {key: value | processes for key, value in expected.items()} | {
        "ttl": {"spec.runPolicy.ttlSecondsAfterFinished"} | processes
    }


@pytest.mark.parametrize(
    ("restart", "pod", "limit"),
    [("Never", "Never", 0), ("OnFailure", "OnFailure", 3), ("Always", "OnFailure", 3), ("ExitCode", "Never", 0)],
)
def test_restarts_are_said_by_the_runtime(restart, pod, limit):
    conversion = converted(a_job(WorkerRestart=restart, runPolicy={"backoffLimit": 3}, nprocPerNode="2"))
    spec = conversion.documents[-2]["spec"]["template"]["spec"]
    job = spec["replicatedJobs"][0]["template"]["spec"]
    assert (job["template"]["spec"]["restartPolicy"], job["backoffLimit"]) == (pod, limit)
    assert spec.get("failurePolicy", {}).get("maxRestarts") == (3 if restart == "ExitCode" else None)
    assert ("podFailurePolicy" in job) == (restart == "ExitCode")
    always = [loss.path for loss in conversion.losses if loss.serious]
    assert always == (["spec.pytorchReplicaSpecs[Worker].restartPolicy"] if restart == "Always" else [])


def test_success_is_said_by_the_runtime():
    cases = {
        "rank 0": (a_job(counts={"Master": 1, "Worker": 2}), {}, {"succeededIndexes": "0"}),
        "all": (a_job(), {}, None),
        "chief": (a_job("TFJob", counts={"Chief": 1, "Worker": 2}), {"targetReplicatedJobs": ["chief"]}, None),
        "worker 0": (a_job("TFJob", counts={"PS": 1, "Worker": 2}), {"targetReplicatedJobs": ["worker"]},
                     {"succeededIndexes": "0"}),
        "any": (a_job(elasticPolicy={}), {}, {"succeededCount": 1}),
    }  # fmt: skip
    for name, (document, of_set, rule) in cases.items():
        spec = converted(document).documents[-2]["spec"]["template"]["spec"]
        assert spec.get("successPolicy", {}) == ({"operator": "All"} | of_set if of_set else {}), name
        policies = [job["template"]["spec"].get("successPolicy") for job in spec["replicatedJobs"]]
        assert [found["rules"] for found in policies if found] == ([[rule]] if rule else []), name


def test_a_name_of_a_pod_in_a_template_is_lost():
    document = a_job()
    pod = document["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["containers"][0]["args"] = ["--host=j-worker-0", "other-j-worker-0", "j-worker-0x"]
    assert [loss.path for loss in converted(document).losses if "other names" in loss.what] == [
        "spec.pytorchReplicaSpecs[Worker].template.spec.containers[0].args[0]"
    ]


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda job: job["metadata"].update(name="j" * 50), "metadata.name"),
        (lambda job: job.update(metadata={"generateName": "j-"}), "metadata.name"),
        (
            lambda job: job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"].append(
                {"name": "node", "image": "x"}
            ),
            "spec.pytorchReplicaSpecs[Worker].template.spec.containers",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused_with_its_field(change, path):
    document = a_job()
    change(document)
    with pytest.raises(NotConvertible) as refused:
        converted(document)
    assert refused.value.path == path


def convert(*given: dict, arguments: tuple[str, ...] = ()) -> Result:
    return CliRunner().invoke(cli, ["convert", "-f", "-", *arguments], input=writer.write(given))


def test_the_command_prints_objects_and_says_losses():
    job = a_job(runPolicy={"cleanPodPolicy": "Running"}, nprocPerNode="1")
    result = convert(job)
    assert result.exit_code == 0
    assert [found["kind"] for found in documents(result.stdout)] == ["TrainingRuntime", "TrainJob"]
    assert json.loads(convert(job, arguments=("--output", "json")).stdout)["items"] == documents(result.stdout)
    assert convert(job, arguments=("--strict",)).exit_code == 0
    lossy = convert(a_job(nprocPerNode="auto"), arguments=("--strict",))
    assert (lossy.exit_code, "lost: PyTorchJob j: spec.nprocPerNode: " in lossy.stderr) == (1, True)
    refused = convert({**job, "metadata": {"name": "j" * 50}})
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "line 5: PyTorchJob" in refused.stderr
    assert "metadata.name: Too long" in refused.stderr


def containers(document: dict, role: str = "Worker") -> list[dict]:
    (field,) = (key for key in document["spec"] if key.endswith("ReplicaSpecs"))
    return document["spec"][field][role]["template"]["spec"]["containers"]


def test_odd_jobs_keep_their_meaning():
    gpus = a_job()
    containers(gpus)[0]["resources"] = {"limits": {"nvidia.com/gpu": 2}}
    assert [loss.path for loss in converted(gpus).losses if loss.serious] == []
    own = a_job("JAXJob", counts={"Worker": 2})
    containers(own)[0]["env"] = [{"name": "JAX_NUM_PROCESSES", "value": "9"}]
    assert converted(own).documents[-2]["spec"]["mlPolicy"] == {"numNodes": 1}  # Trainer would override it
    assert [env["JAX_NUM_PROCESSES"] for _, env in nodes(converted(own))] == ["9", "9"]
    beside = a_job(nprocPerNode="1")
    containers(beside).append({"name": "proxy", "image": "x"})
    made = converted(beside).documents[-2]["spec"]
    assert made["mlPolicy"]["torch"]["envInjection"]["targets"] == [{"jobName": "node", "containerNames": ["proxy"]}]
    proxy = made["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][1]
    assert "RANK" in {entry["name"] for entry in proxy["env"]}
    twice = a_job("TFJob", counts={"Worker": 1})
    containers(twice)[0]["env"] = [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}]
    assert [env for _, env in nodes(converted(twice))] == [{"B": "null", "A": "2"}]
    assert len(nodes(converted(a_job("JAXJob", counts={"Worker": 20_000})))) == 20_000

"""TrainJobs with their runtimes, for what Trainer and Trainshed make of them: a table that covers its unit tests."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainshed.api.framework import JobDefaults
from trainshed.frameworks import ALL_VERSIONS
from trainshed.manifests import reader
from trainshed.rendering import rendered
from trainshed.trainjob import from_v1
from trainshed.trainjob.builtin_runtimes import RUNTIMES

EXAMPLES = Path(__file__).parents[2] / "examples"

VERSION = "trainer.kubeflow.org/v1alpha1"
GPUS = {"limits": {"nvidia.com/gpu": "4"}}
CPUS = {"requests": {"cpu": "2500m"}, "limits": {"cpu": 8}}
USERS = [{"name": "OWN", "value": "job"}, {"name": "FROM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]


def a_trainjob(runtime: str = "torch-distributed", trainer: dict | None = None, **spec: Any) -> dict:
    given = {"trainer": trainer} if trainer is not None else {}
    head = {"apiVersion": VERSION, "kind": "TrainJob", "metadata": {"name": "tj", "namespace": "ns"}}
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": runtime}
    return {**head, "spec": {"runtimeRef": reference, **given, **spec}}


def a_runtime(of: str = "torch-distributed", policy: dict | None = None, **pod: Any) -> dict:
    """A built-in runtime with another name, and with changes of its policy and of the container `node`."""
    made = copy.deepcopy(RUNTIMES[of])
    made["metadata"]["name"] = "own"
    if policy is not None:
        made["spec"]["mlPolicy"] = policy
    for job in made["spec"]["template"]["spec"]["replicatedJobs"]:
        job["template"]["spec"]["template"]["spec"]["containers"][0].update(copy.deepcopy(pod))
    return made


def patch(**pod: Any) -> dict:
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]
    template = {"metadata": {"labels": {"kueue": "a"}}, "spec": {"replicatedJobs": jobs}}
    return {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {"template": template}}


VOLUMES = [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]
MOUNTS = [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}]


def _with_pod(runtime: dict, **fields: Any) -> dict:
    for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
        job["template"]["spec"]["template"]["spec"].update(fields)
    return runtime


#: Each case: the job, and its runtime if it is not a built-in one.
CASES: dict[str, tuple[dict, dict | None]] = {
    **{
        f"{name}: {what}": (a_trainjob(name, trainer), None)
        for name in RUNTIMES
        for what, trainer in {
            "no trainer": None,
            "an empty trainer": {},
            "4 nodes": {"numNodes": 4},
            "1 node": {"numNodes": 1},
            "3 processes": {"numProcPerNode": 3, "numNodes": 2},
            "GPUs": {"resourcesPerNode": GPUS, "numNodes": 2},
            "CPUs": {"resourcesPerNode": CPUS},
            "CPU limit": {"resourcesPerNode": {"limits": {"cpu": "1500m"}}},
            "everything": {
                "numNodes": 3, "image": "other", "command": ["run"], "args": ["a"], "env": USERS,
                "resourcesPerNode": {"requests": {"memory": "1Gi"}},
            },
        }.items()
    },
    **{
        f"{of}: own runtime: {what}": (a_trainjob("own", trainer), a_runtime(of, policy, **pod))
        for of, key in (("torch-distributed", "torch"), ("jax-distributed", "jax"), ("xgboost-distributed", "xgboost"))
        for what, (trainer, policy, pod) in {
            "nodes": ({}, {"numNodes": 5, key: {}}, {}),
            "nodes overridden": ({"numNodes": 2}, {"numNodes": 5, key: {}}, {}),
            "no policy": ({"numNodes": 2, "env": USERS}, {"numNodes": 1}, {"env": [{"name": "OWN", "value": "x"}]}),
            "resources": ({}, None, {"resources": CPUS}),
            "GPUs": ({"resourcesPerNode": {"requests": {"cpu": 3}}}, None, {"resources": GPUS}),
            "env": ({"env": USERS}, None, {"env": [{"name": "OWN", "value": "runtime"}, {"name": "B", "value": "b"}]}),
            "ports": ({}, None, {"ports": [{"name": "web", "containerPort": 8080}]}),
            "own port": ({}, None, {"ports": [{"name": "p", "containerPort": 29500}]}),
            "unnamed port": ({}, None, {"ports": [{"containerPort": 8080}]}),
            "variables of the policy": ({}, None, {"env": [
                {"name": "PET_NNODES", "value": "x"}, {"name": "JAX_NUM_PROCESSES", "value": "x"},
                {"name": "DMLC_NUM_WORKER", "value": "x"}]}),
        }.items()
    },
    "jax: the job sets a variable of the policy": (
        a_trainjob("jax-distributed", {"env": [{"name": "JAX_NUM_PROCESSES", "value": "9"}]}), None),
    "plain: parallelism": (a_trainjob("own"), {**a_runtime(), "spec": {"template": {"spec": {"replicatedJobs": [
        {"name": "node", "template": {"spec": {"parallelism": 3, "template": {"spec": {"containers": [
            {"name": "node", "image": "x"}]}}}}}]}}}}),
    "mpi: launcher is no node": (
        a_trainjob("own", {"numNodes": 3}), a_runtime("deepspeed-distributed", {"numNodes": 1, "mpi": {}})),
    "mpi: processes of the runtime": (
        a_trainjob("own", {"resourcesPerNode": GPUS}),
        a_runtime("mlx-distributed", {"mpi": {"numProcPerNode": 2, "runLauncherAsNode": True}})),
    "patches: pod": (
        a_trainjob(trainer={}, runtimePatches=[patch(
            nodeSelector={"a": "b"}, tolerations=[{"key": "t", "operator": "Exists"}], serviceAccountName="me",
            schedulingGates=[{"name": "g/g"}], imagePullSecrets=[{"name": "s"}], terminationGracePeriodSeconds=5,
            securityContext={"fsGroup": 7})]), None),
    "patches: merge": (
        a_trainjob("own", {}, runtimePatches=[
            patch(nodeSelector={"zone": "z"}, volumes=[{"name": "c", "emptyDir": {}}, {"name": "b", "emptyDir": {}}],
                  containers=[{"name": "node", "volumeMounts": [{"name": "c", "mountPath": "/c"},
                                                                {"name": "c", "mountPath": "/a", "readOnly": True}]}]),
            patch(nodeSelector={"zone": "y"}, tolerations=[])]),
        _with_pod(a_runtime(volumeMounts=MOUNTS), volumes=VOLUMES, nodeSelector={"zone": "x", "k": "v"},
                  tolerations=[{"key": "t"}])),
    "patches: security of a container": (
        a_trainjob(trainer={"numNodes": 2}, runtimePatches=[patch(
            containers=[{"name": "node", "securityContext": {"runAsUser": 5}}])]), None),
    "suspended, with a deadline": (a_trainjob(trainer={}, suspend=True, activeDeadlineSeconds=5), None),
}  # fmt: skip

#: What Trainer's webhook refuses, and Trainshed with the path of the field.
REFUSED: dict[str, tuple[dict, dict | None, str]] = {
    "PET_NNODES": (a_trainjob(trainer={"env": [{"name": "PET_NNODES", "value": "1"}]}), None,
                   "spec.trainer.env[0].name"),
    "DMLC_TASK_ID": (a_trainjob("xgboost-distributed", {"env": [{"name": "DMLC_TASK_ID", "value": "1"}]}), None,
                     "spec.trainer.env[0].name"),
    "OMPI": (a_trainjob("mlx-distributed", {"env": [{"name": "OMPI_MCA_plm_rsh_args", "value": "1"}]}), None,
             "spec.trainer.env[0].name"),
    "env in a patch": (
        a_trainjob(trainer={}, runtimePatches=[patch(containers=[{"name": "node", "env": [{"name": "a"}]}])]), None,
        ("spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
        ".template.spec.template.spec.containers[0].env")),
    "no initializer": (a_trainjob(trainer={}, initializer={"dataset": {"storageUri": "hf://a/b"}}), None,
                       "spec.initializer.dataset"),
}  # fmt: skip


def example_jobs() -> Iterator[tuple[str, dict]]:
    """The jobs of all examples, by the names of their files."""
    for path in sorted((*EXAMPLES.glob("*/*.yaml"), *EXAMPLES.glob("*/*/*.yaml"))):
        for found in reader.documents(path.read_text()):
            if (found.value["apiVersion"], found.value["kind"]) in ALL_VERSIONS:
                yield f"{path.parent.name}/{path.stem}", found.value


def converted(document: dict) -> from_v1.Conversion:
    """A job of kubeflow.org as a TrainJob."""
    framework = ALL_VERSIONS[document["apiVersion"], document["kind"]]
    found = rendered(document, "ns", JobDefaults())
    assert not found.job.problems
    return from_v1.convert(document, found.job, framework)


def converted_examples() -> Iterator[tuple[str, tuple[dict, dict]]]:
    """The examples as TrainJobs, each with its runtime as one of the cluster."""
    for name, document in example_jobs():
        *_, runtime, trainjob = converted(document).documents
        reference = {**trainjob["spec"]["runtimeRef"], "kind": "ClusterTrainingRuntime"}
        job = {**trainjob, "metadata": {**trainjob["metadata"], "namespace": "ns"}}
        yield name, ({**job, "spec": {**job["spec"], "runtimeRef": reference}}, {**runtime, "kind": reference["kind"]})

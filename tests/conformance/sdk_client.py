"""Uses the unmodified v1 SDK, in its own environment: sdk_client.py KUBECONFIG NAMESPACE ACTION."""

from __future__ import annotations

import json
import sys
import time
import types
from collections.abc import Callable

from kubeflow import training as sdk
from kubeflow.training import TrainingClient
from kubernetes import client

IMAGE = "python:3.11-slim"
#: The roles of a job of each kind, and its container.
KINDS = {
    "TFJob": ("tensorflow", "tf_replica_specs", ("Chief", "Worker")),
    "PyTorchJob": ("pytorch", "pytorch_replica_specs", ("Master", "Worker")),
    "MPIJob": ("mpi", "mpi_replica_specs", ("Launcher", "Worker")),
    "XGBoostJob": ("xgboost", "xgb_replica_specs", ("Master", "Worker")),
    "PaddleJob": ("paddle", "paddle_replica_specs", ("Master", "Worker")),
    "JAXJob": ("jax", "jax_replica_specs", ("Worker",)),
}


def job(kind: str, name: str, namespace: str, **policy: object) -> object:
    """A job of the SDK's own classes, one replica a role."""
    container, field, roles = KINDS[kind]
    containers = [client.V1Container(name=container, image=IMAGE, command=["true"])]
    template = client.V1PodTemplateSpec(spec=client.V1PodSpec(containers=containers))
    group = sdk.KubeflowOrgV1ReplicaSpec(replicas=1, restart_policy="Never", template=template)
    spec_class, job_class = getattr(sdk, f"KubeflowOrgV1{kind}Spec"), getattr(sdk, f"KubeflowOrgV1{kind}")
    spec = spec_class(run_policy=sdk.KubeflowOrgV1RunPolicy(**policy), **{field: dict.fromkeys(roles, group)})
    metadata = client.V1ObjectMeta(name=name, namespace=namespace)
    return job_class(api_version="kubeflow.org/v1", kind=kind, metadata=metadata, spec=spec)


def train_function() -> None:
    """The function that a user would train."""
    print("training")


def function(training: TrainingClient, _namespace: str) -> object:
    """A job from a function, for three workers."""
    training.create_job(name="a", job_kind="PyTorchJob", train_func=train_function, base_image=IMAGE, num_workers=3)
    training.wait_for_job_conditions("a", expected_conditions={"Running"}, polling_interval=1, timeout=30)
    return sorted(training.get_job_pod_names("a"))


def image(training: TrainingClient, _namespace: str) -> object:
    """A job from an image, for one worker."""
    training.create_job(name="a", job_kind="PyTorchJob", base_image="hello-world", num_workers=1)
    training.wait_for_job_conditions("a", polling_interval=1, timeout=30)
    return [training.is_job_succeeded("a"), sorted(training.get_job_pod_names("a"))]


def waiting(training: TrainingClient, namespace: str) -> object:
    """Wait for a condition that becomes true, and for one that does not."""
    training.create_job(job("PyTorchJob", "a", namespace))
    training.wait_for_job_conditions("a", expected_conditions={"Created"}, polling_interval=1, timeout=30)
    training.wait_for_job_conditions("a", polling_interval=1, timeout=30)
    training.create_job(job("PyTorchJob", "fails", namespace))
    try:
        training.wait_for_job_conditions("fails", polling_interval=1, timeout=30)
    except RuntimeError as error:
        return [training.is_job_succeeded("a"), training.is_job_failed("fails"), str(error)]
    return "no error"


def selection(training: TrainingClient, namespace: str) -> object:
    """The pods of a job by each of their labels, in a job whose worker 0 leads."""
    wanted = job("PyTorchJob", "a", namespace)
    wanted.spec.pytorch_replica_specs = {"Worker": wanted.spec.pytorch_replica_specs["Worker"]}
    wanted.spec.pytorch_replica_specs["Worker"].replicas = 2
    training.create_job(wanted)
    training.wait_for_job_conditions("a", expected_conditions={"Running"}, polling_interval=1, timeout=30)
    one = training.get_job_pods("a", is_master=True, replica_type="worker", replica_index=0)
    none = training.get_job_pods("a", is_master=True, replica_type="worker", replica_index=1)
    try:
        training.get_job_pods("a", replica_type="Worker")
    except ValueError as error:
        return [[pod.metadata.name for pod in one], [pod.metadata.name for pod in none], str(error)]
    return "no error"


def listing(training: TrainingClient, _namespace: str) -> object:
    """All jobs of a kind."""
    return sorted(found.metadata.name for found in training.list_jobs(job_kind="PyTorchJob"))


def queue(training: TrainingClient, namespace: str) -> object:
    """A job for a queue that is not there."""
    training.create_job(job("PyTorchJob", "a", namespace, suspend=True), queue_name="nowhere")
    return training.get_job("a").metadata.labels


def managers(training: TrainingClient, namespace: str) -> object:
    """Jobs that say who manages them."""
    training.create_job(job("PyTorchJob", "own", namespace, managed_by="kubeflow.org/training-operator"))
    training.create_job(job("PyTorchJob", "theirs", namespace, managed_by="kueue.x-k8s.io/multikueue"))
    training.wait_for_job_conditions("own", expected_conditions={"Running"}, polling_interval=1, timeout=30)
    try:
        training.create_job(job("PyTorchJob", "strange", namespace, managed_by="kueue.x-k8s.io/other-controller"))
    except RuntimeError as error:
        answers = [training.is_job_created("own"), training.get_job_conditions("theirs") or []]
        return [listing(training, namespace), *answers, str(error)]
    return "no error"


def deletion(training: TrainingClient, namespace: str) -> object:
    """A job that runs is deleted."""
    training.create_job(job("PyTorchJob", "a", namespace))
    training.wait_for_job_conditions("a", expected_conditions={"Running"}, polling_interval=1, timeout=30)
    training.delete_job("a")
    return listing(training, namespace)


def everything(training: TrainingClient, namespace: str) -> object:
    """Create, read, change and delete a job of each kind."""
    answers = {}
    for kind in KINDS:
        name = kind.lower()
        training.create_job(job(kind, name, namespace), namespace=namespace)
    for kind in KINDS:
        name = kind.lower()
        training.wait_for_job_conditions(name, job_kind=kind, polling_interval=1, timeout=60)
        found = training.get_job(name, job_kind=kind)
        found.metadata.labels = {"seen": "yes"}
        training.update_job(found, name, job_kind=kind)
        answers[kind] = {
            "succeeded": training.is_job_succeeded(name, job_kind=kind),
            "created": training.is_job_created(name, job_kind=kind),
            "failed": training.is_job_failed(name, job_kind=kind),
            "restarting": training.is_job_restarting(name, job_kind=kind),
            "conditions": [condition.type for condition in training.get_job_conditions(name, job_kind=kind)],
            "pods": sorted(training.get_job_pod_names(name)),
            "masters": sorted(training.get_job_pod_names(name, is_master=True)),
            "listed": [listed.metadata.name for listed in training.list_jobs(job_kind=kind)],
            "labels": training.get_job(name, job_kind=kind).metadata.labels,
        }
        training.delete_job(name, job_kind=kind)
        end = time.monotonic() + 30
        while training.list_jobs(job_kind=kind) and time.monotonic() < end:
            time.sleep(0.2)
    return answers


def fine_tuning(training: TrainingClient, _namespace: str) -> object:
    """Call `train`, with stubs for the libraries of the hub that it calls to build the job."""
    described = types.SimpleNamespace(to_dict=dict)
    hub, store = types.ModuleType("kubeflow.storage_initializer.hugging_face"), types.ModuleType("s3")
    for name, module in (
        ("HuggingFaceModelParams", hub),
        ("HuggingFaceDatasetParams", hub),
        ("S3DatasetParams", store),
    ):
        setattr(module, name, type(name, (types.SimpleNamespace,), {}))
    sys.modules |= {"peft": types.ModuleType("peft"), "transformers": types.ModuleType("transformers")}
    sys.modules |= {hub.__name__: hub, "kubeflow.storage_initializer.s3": store}
    training.train(
        "tune",
        num_workers=2,
        model_provider_parameters=hub.HuggingFaceModelParams(model_uri="hf://m", transformer_type=object, num_labels=2),
        dataset_provider_parameters=hub.HuggingFaceDatasetParams(repo_id="d"),
        trainer_parameters=types.SimpleNamespace(lora_config=described, training_parameters=described),
    )
    training.wait_for_job_conditions("tune", expected_conditions={"Running"}, polling_interval=1, timeout=30)
    return sorted(training.get_job_pod_names("tune"))


def main(kubeconfig: str, namespace: str, action: str) -> None:
    """Run the action, and print the result as the last line."""
    actions: dict[str, Callable[[TrainingClient, str], object]] = {
        known.__name__: known
        for known in (function, image, waiting, selection, listing, queue, managers, deletion, everything, fine_tuning)
    }
    training = TrainingClient(config_file=kubeconfig, namespace=namespace, job_kind="PyTorchJob")
    print(json.dumps(actions[action](training, namespace)))


if __name__ == "__main__":
    main(*sys.argv[1:])

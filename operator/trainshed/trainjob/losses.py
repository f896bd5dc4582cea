"""What a conversion cannot carry over: one row for each field, with what becomes of it and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LossKind:
    """A row of the table of losses, which docs/convert.md shows: the field, what becomes of it, and what to do.

    What is not `serious` is a difference of how jobs run in general, and not of what this job asks for.
    """

    field: str
    what: str
    advice: str
    serious: bool = True


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of one object: the path of the field there, what is lost, and what to do."""

    path: str
    what: str
    advice: str
    serious: bool

    @property
    def word(self) -> str:
        """What the loss is called."""
        return "lost" if self.serious else "differs"


@dataclass(frozen=True, slots=True)
class Conversion:
    """The objects that stand for a job, and what they do not say."""

    documents: tuple[dict[str, Any], ...]
    losses: tuple[Loss, ...]


class NotConvertible(ValueError):
    """A field that no object of the other kind can have, or that is wrong; `path` is that of the field."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


#: From the kinds of kubeflow.org to a TrainJob.
TO_TRAINJOB = {
    "always": LossKind(
        "spec.*ReplicaSpecs[*].restartPolicy: Always",
        "becomes OnFailure: a Job does not restart a container that ends with 0",
        "restart the program in a loop of its own if it has to go on",
    ),
    "clean-all": LossKind(
        "spec.runPolicy.cleanPodPolicy: All",
        "finished pods stay until the TrainJob is deleted",
        "delete the TrainJob when it has ended",
    ),
    "clean-none": LossKind(
        "spec.runPolicy.cleanPodPolicy: None",
        "pods that still run when the job ends are deleted",
        "write to a volume what has to outlast the job",
    ),
    "clean-default": LossKind(
        "spec.runPolicy.cleanPodPolicy (not set)",
        "pods that still run when the job ends are deleted; under the default, None, they go on",
        "nothing, unless something is read from such pods",
        serious=False,
    ),
    "ttl": LossKind(
        "spec.runPolicy.ttlSecondsAfterFinished",
        "a TrainJob has none. That of a JobSet would delete only the JobSet, and Trainer 2.3.0 then runs the job again",
        "delete finished TrainJobs with a CronJob, or by the tool that creates them",
    ),
    "deadline": LossKind(
        "spec.runPolicy.activeDeadlineSeconds",
        "counts from the creation of the TrainJob or its last resume, and its end deletes the pods with their logs",
        "keep logs elsewhere",
        serious=False,
    ),
    "deadline-zero": LossKind(
        "spec.runPolicy.activeDeadlineSeconds: 0",
        "becomes 1: a TrainJob has at least one second",
        "nothing",
    ),
    "backoff-per-role": LossKind(
        "spec.runPolicy.backoffLimit",
        "counts for each replicated job, and not for all together",
        "choose a number that is right for each role",
    ),
    "disruption": LossKind(
        "spec.*ReplicaSpecs[*].restartPolicy",
        "a pod that is deleted or evicted, or whose node is lost, counts as a failure",
        "allow restarts with ExitCode and a backoffLimit where nodes are often drained",
        serious=False,
    ),
    "scheduling": LossKind(
        "spec.runPolicy.schedulingPolicy.*",
        "not carried over: it depends on the gang scheduler of the cluster, which Trainer knows by the runtime",
        "set spec.podGroupPolicy of the runtime (coscheduling or volcano), and priorityClassName in its pod template",
    ),
    "elastic-bounds": LossKind(
        "spec.elasticPolicy.{minReplicas,maxReplicas}",
        "PET_NNODES keeps the bounds, but the number of pods is fixed",
        "set the number of nodes in the runtime",
    ),
    "elastic-metrics": LossKind(
        "spec.elasticPolicy.metrics",
        "nothing scales a TrainJob",
        "remove it, or stay with PyTorchJob",
    ),
    "dynamic": LossKind(
        "spec.enableDynamicWorker",
        "the number of pods is fixed, and a worker that fails for good fails the job",
        "stay with TFJob if workers come and go",
    ),
    "processes": LossKind(
        "spec.nprocPerNode",
        "Trainer sets PET_NPROC_PER_NODE: auto if the pod has GPUs, else the CPUs it requests, at least 1",
        "give the number of processes as a number",
    ),
    "annotation": LossKind(
        "metadata.annotations[trainshed.dev/*]",
        "Trainer does not know it",
        "see docs/api-reference.md#annotations for what it does",
    ),
    "containers": LossKind(
        "spec.*ReplicaSpecs[*].template.spec.containers",
        "a pod of a Job ends when all of its containers have ended, and not with the one that trains",
        "make the others sidecars: initContainers with restartPolicy Always",
    ),
    "host-name": LossKind(
        "spec.*ReplicaSpecs[*].template: a text with the name of a pod or a label of training.kubeflow.org",
        "pods have other names there, with the job as domain, and the labels of JobSet",
        "replace the text by a variable such as MASTER_ADDR, or by the new name",
    ),
    "scope": LossKind(
        "metadata.annotations[trainshed.dev/restart-scope]",
        "only the replicas of the whole job, or the failed one alone, restart there",
        "check whether the job survives it",
    ),
    "exec": LossKind(
        "apiVersion: kubeflow.org/v1 of an MPIJob",
        "Trainer enters its nodes by ssh instead of kubectl exec, as its own user",
        "use an image with sshd, and with ssh in the launcher, such as those of MPIJobs of v2beta1",
    ),
    "worker-command": LossKind(
        "spec.mpiReplicaSpecs[Worker].template.spec.containers[0].command",
        "is kept, and has to run sshd: Trainer enters its nodes by ssh",
        "remove it, or let it start /usr/sbin/sshd -De",
    ),
    "names": LossKind(
        "metadata.name",
        "pods are called <name>-<role>-0-<index> with a random suffix, and have one Service, <name>",
        "read logs by the labels jobset.sigs.k8s.io/jobset-name and batch.kubernetes.io/job-completion-index",
        serious=False,
    ),
    "no-trainer": LossKind(
        "spec.*ReplicaSpecs",
        "roles differ, so no step of the runtime is the trainer: spec.trainer of the TrainJob has no effect",
        "change numbers and commands in the runtime",
        serious=False,
    ),
    "template-metadata": LossKind(
        "metadata.{ownerReferences,finalizers,…}",
        "left out: they belong to the object in its cluster",
        "nothing",
        serious=False,
    ),
}


#: From a TrainJob to the kinds of kubeflow.org.
FROM_TRAINJOB = {
    "field": LossKind(
        "fields of JobSet and Job: startupPolicy, coordinator, volumeClaimPolicies, ttlSecondsAfterFinished, …",
        "a job of kubeflow.org has no such field",
        "see whether runPolicy has what it is for",
    ),
    "failure-policy": LossKind(
        "template.spec.failurePolicy",
        "its rules are left out; maxRestarts becomes backoffLimit",
        "choose a restartPolicy: ExitCode tells failures of the program from those of nodes",
    ),
    "pod-failure-policy": LossKind(
        "replicatedJobs[*].template.spec.podFailurePolicy",
        "left out",
        "choose restartPolicy ExitCode, under which codes from 128 on are retried",
    ),
    "new-pods": LossKind(
        "template.spec.restartPolicy: Never, with a backoffLimit",
        "becomes OnFailure: a failed container is restarted in its pod, and not replaced with a new pod",
        "set backoffLimit 0, or use ExitCode",
    ),
    "success-policy": LossKind(
        "template.spec.successPolicy",
        "the launcher of an MPIJob alone defines success",
        "check who should",
    ),
    "job-success-policy": LossKind(
        "replicatedJobs[*].template.spec.successPolicy",
        "all pods have to succeed",
        "let the others end when the first does",
    ),
    "coscheduling": LossKind(
        "podGroupPolicy.coscheduling",
        "becomes runPolicy.schedulingPolicy, which has an effect only if the operator has --gang-scheduler-name",
        "see docs/gang-scheduling.md",
    ),
    "volcano": LossKind(
        "podGroupPolicy.volcano",
        "left out: the operator has one gang scheduler for all jobs",
        "see docs/gang-scheduling.md",
    ),
    "overridden": LossKind(
        "spec.trainer.env and env of the runtime: a variable of the kind, such as RANK",
        "the operator sets it to its own value",
        "give the variable another name",
    ),
    "injection": LossKind(
        "mlPolicy.torch.envInjection",
        "all containers of a pod get the variables, but no init containers",
        "check the init containers",
    ),
    "job-labels": LossKind(
        "replicatedJobs[*].template.metadata.labels",
        "left out: there are no Jobs",
        "put labels on the pods",
    ),
    "containers": LossKind(
        "replicatedJobs[*].template.spec.template.spec.containers",
        "the container that trains decides, whatever the others do",
        "nothing, if the others only help it",
    ),
    "host-name": LossKind(
        "replicatedJobs[*]…: a text with the name of a pod, or a label of JobSet",
        "pods are called <name>-worker-<index> here, and have the labels of training.kubeflow.org",
        "replace the text by a variable, or by the new name",
    ),
    "no-trainer": LossKind(
        "spec.trainer (not set)",
        "the pods get the variables of the policy, which Trainer 2.3.0 leaves out then",
        "nothing",
        serious=False,
    ),
    "deadline": LossKind(
        "spec.activeDeadlineSeconds",
        "finished pods stay at the deadline, with their logs",
        "nothing",
        serious=False,
    ),
    "torch-variables": LossKind(
        "mlPolicy.torch",
        "containers also get MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and PYTHONUNBUFFERED",
        "start programs with torchrun, which sets its own, or remove what reads them",
        serious=False,
    ),
    "jax-variables": LossKind(
        "mlPolicy.jax, or none",
        "containers also get COORDINATOR_ADDRESS, COORDINATOR_PORT, NUM_PROCESSES, PROCESS_ID, and the names of JAX",
        "nothing",
        serious=False,
    ),
    "xgboost-master": LossKind(
        "mlPolicy.xgboost",
        "the first pod becomes the master, which alone defines success and starts first",
        "let the first pod end last",
    ),
    "index": LossKind(
        "JOB_COMPLETION_INDEX",
        "workers beside a master have no variable with their index in the job",
        "read RANK",
    ),
    "host-index": LossKind(
        "JOB_COMPLETION_INDEX, with runLauncherAsNode",
        "workers have no such variable",
        "read the name of the host",
        serious=False,
    ),
    "launcher-first": LossKind(
        "mlPolicy.mpi",
        "the hostfile has the launcher first; Trainer has the hosts in the order of the roles",
        "nothing, unless rank 0 has to run on a certain pod",
        serious=False,
    ),
    "names": LossKind(
        "metadata.name",
        "pods are called <name>-worker-<index>, and each has a Service of its own",
        "nothing",
        serious=False,
    ),
}


def loss(table: dict[str, LossKind], key: str, path: str, **values: object) -> Loss:
    """Return a loss of this row at a path."""
    row = table[key]
    return Loss(path, row.what.format(**values) if values else row.what, row.advice, row.serious)

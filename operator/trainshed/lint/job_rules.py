"""Rules about a job as a whole: restarts, its end, its roles, and what its pods share."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.api.coerce import as_mapping, as_sequence, parse_integer, parse_text
from trainshed.api.job import CleanPodPolicy, ReplicaGroup, RestartPolicy
from trainshed.frameworks.pytorch import PyTorchJobOptions

from .remark import LintedJob, LintRule, Remark, pod_spec

#: Kubernetes' default of terminationGracePeriodSeconds, and the least that leaves time for the checkpoint of a model
#: that needs GPUs.
GRACE, LEAST_GRACE = 30, 60
INJECT = "sidecar.istio.io/inject"
#: Folders of the kernel, whose content is not data.
KERNEL = ("/dev", "/sys", "/proc")
#: Roles whose processes compute nothing on GPUs, by kind.
WITHOUT_GPUS = {"MPIJob": "Launcher", "TFJob": "PS"}


def _endless_restarts(subject: LintedJob) -> Iterator[Remark]:
    policy = subject.job.policy
    for group in subject.groups:
        waits = (subject.job.kind, group.role) == ("MPIJob", "Worker")  # for ranks, which the launcher starts
        endless = policy.backoff_limit is None and policy.deadline is None and not waits
        if group.restart_policy.restarts_in_place and endless:
            message = (
                f"is {group.restart_policy.value} without runPolicy.backoffLimit: any failure is retried without end"
            )
            yield Remark("restartPolicy", message, group.role)


def _never_succeeds(subject: LintedJob) -> Iterator[Remark]:
    found = subject.framework.hooks.success_policy(subject.job)
    for group in subject.groups:
        if found and group.role == found.role and group.restart_policy is RestartPolicy.ALWAYS:
            yield Remark(
                "restartPolicy",
                "is Always: a replica that has succeeded runs again, and the job never ends",
                group.role,
            )


def _short_grace(subject: LintedJob) -> Iterator[Remark]:
    for group in subject.groups:
        written = pod_spec(group).get("terminationGracePeriodSeconds")
        seconds = max(GRACE if written is None else parse_integer(written), subject.job.checkpoint_grace or 0)
        restarts = group.restart_policy is not RestartPolicy.NEVER
        if subject.gpus(group) and restarts and seconds < LEAST_GRACE and not _is_idle(subject, group):
            by_default = "" if written is not None else ", the default"
            message = f"is {seconds} s{by_default}: a checkpoint at SIGTERM may not get done"
            yield Remark("template.spec.terminationGracePeriodSeconds", message, group.role)


def _gpus_stay_taken(subject: LintedJob) -> Iterator[Remark]:
    job = subject.job
    kept = job.policy.clean_pods is CleanPodPolicy.NONE and job.policy.ttl is None and not job.in_queue
    if subject.has_gpus and kept and job.size > 1:
        yield Remark("runPolicy.cleanPodPolicy", "is None: pods that still run when the job ends keep their GPUs")


def _gpus_without_use(subject: LintedJob) -> Iterator[Remark]:
    for group in subject.groups:
        if (gpus := subject.gpus(group)) and _is_idle(subject, group):
            yield Remark(
                "template.spec.containers", f"gets {gpus} GPUs, and this role computes nothing on them", group.role
            )


def _is_idle(subject: LintedJob, group: ReplicaGroup) -> bool:
    computes = group.role == "Launcher" and (subject.spec.get("runLauncherAsWorker") or not subject.job.of("Worker"))
    return WITHOUT_GPUS.get(subject.job.kind) == group.role and not computes


def _more_processes_than_gpus(subject: LintedJob) -> Iterator[Remark]:
    field = "slotsPerWorker" if subject.job.kind == "MPIJob" else "nprocPerNode"
    text = str(subject.spec.get(field) or "")
    for part in subject.own_parts():
        if text.isdecimal() and 0 < part.gpus < int(text) and not _is_idle(subject, part.group):
            yield Remark(field, f"is {text}, and a pod gets {part.gpus} GPUs")


def _fixed_elastic(subject: LintedJob) -> Iterator[Remark]:
    elastic, workers = subject.job.options_as(PyTorchJobOptions).elastic, subject.job.of("Worker")
    if elastic is None or workers is None:
        return
    if elastic.minimum == elastic.maximum:
        message = f"has {elastic.maximum} for minReplicas and for maxReplicas: the job can neither shrink nor grow"
        yield Remark("elasticPolicy", message)
    elif workers.count == 1 and not elastic.metrics:
        yield Remark("elasticPolicy", "is of a job with 1 worker, which does not grow by itself without metrics")


def _no_master(subject: LintedJob) -> Iterator[Remark]:
    job = subject.job
    elastic = job.options_as(PyTorchJobOptions).elastic
    if job.kind == "PyTorchJob" and not (job.of("Master") or elastic) and job.size > 1:
        yield Remark(subject.framework.field, "has no Master: the job succeeds only when all workers have")


def _sidecar_injected(subject: LintedJob) -> Iterator[Remark]:
    for group in subject.groups:
        metadata = as_mapping(group.template.get("metadata"))
        for field in ("labels", "annotations"):
            if str(as_mapping(metadata.get(field)).get(INJECT)).lower() == "true":
                message = "is true: the proxy delays the first connection, and outlives the training"
                yield Remark(f"template.metadata.{field}[{INJECT}]", message, group.role)


def _host_path(subject: LintedJob) -> Iterator[Remark]:
    for group in subject.groups:
        for volume in map(as_mapping, as_sequence(pod_spec(group).get("volumes"))):
            path = parse_text(as_mapping(volume.get("hostPath")).get("path"))
            if path and not path.startswith(KERNEL):
                message = f"is {path} of whichever node the pod gets, and Pod Security may refuse it"
                yield Remark(f"template.spec.volumes[{parse_text(volume.get('name'))}].hostPath", message, group.role)


RULES = (
    LintRule("endless-restarts", _endless_restarts, "Set runPolicy.backoffLimit."),
    LintRule("never-succeeds", _never_succeeds, "Use OnFailure, ExitCode or Never."),
    LintRule("short-grace", _short_grace, "Set it to what a checkpoint takes, with some reserve."),
    LintRule("gpus-stay-taken", _gpus_stay_taken, "Use Running or All, or set ttlSecondsAfterFinished."),
    LintRule("gpus-without-use", _gpus_without_use, "Request them for the roles that compute."),
    LintRule("more-processes-than-gpus", _more_processes_than_gpus, "Start one process for each GPU."),
    LintRule("fixed-elastic", _fixed_elastic, "Give it a range, or leave the policy out."),
    LintRule("no-master", _no_master, "Make the first worker the Master: when it has succeeded, so has the job."),
    LintRule(
        "sidecar-injected", _sidecar_injected, 'Set it to "false": frameworks have their own encryption, or need none.'
    ),
    LintRule("host-path", _host_path, "Use a PersistentVolumeClaim that all nodes reach, or an emptyDir."),
)

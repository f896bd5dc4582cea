"""What to do about a job that waits or has failed: one paragraph for each case of docs/failures.md."""

from __future__ import annotations

from trainshed.api.status import BACKOFF_LIMIT, DEADLINE, STARTUP_DEADLINE, Failure

#: Cases by Kubernetes' reason, or one of the operator, of what a replica waits for or has failed of.
SCHEDULING = (
    "No node takes the pod. The message of the scheduler says what is short: request less, add nodes, or wait until "
    "other jobs end. kubectl describe nodes shows what is allocated; taints need tolerations in the template."
)
IMAGE = (
    "The image cannot be pulled. Check its name and tag, the imagePullSecrets of the template, and whether the node "
    "reaches the registry. The job goes on by itself as soon as the image can be pulled; a new tag needs "
    "a new job or a "
    "changed template."
)
CONFIGURATION = (
    "The container cannot be created, and the message names what is wrong: usually a ConfigMap, a Secret or a key that "
    "does not exist. Create it, and the pod starts by itself."
)
VOLUME = (
    "A volume is not mounted yet, or the sandbox of the pod is not ready. Check that the ConfigMaps, Secrets and "
    "PersistentVolumeClaims in the message exist and are bound; kubectl describe pod has the Events FailedMount and "
    "FailedCreatePodSandBox."
)
COMMAND = "The command cannot be started: its path is wrong in this image, or the file is not executable."
QUEUED = (
    "Kueue starts the job as soon as its queue has room for all of it. kubectl get localqueue shows how many wait; a "
    "smaller job, another queue or a higher kueue.x-k8s.io/priority-class gets room sooner."
)
NODE = (
    "The node could not run the pod, and the program is not at fault. The job tries again after a back-off, and this "
    "does not count against backoffLimit. If it is always the same node, cordon it."
)
DISRUPTED = (
    "The pod was taken away, and the program is not at fault. The job restarts and this does not count against "
    "backoffLimit. Save checkpoints, and use a PriorityClass or a PodDisruptionBudget if it happens often."
)
BY_REASON = {
    "Unschedulable": SCHEDULING,
    "SchedulingGated": (
        "The pod has a scheduling gate, which its owner has to remove: look at spec.schedulingGates of the pod."
    ),
    "SchedulerError": SCHEDULING,
    "NotScheduled": (
        "No scheduler has tried to place the pod. Check schedulerName in the template, and that this scheduler runs."
    ),
    "ImagePullBackOff": IMAGE,
    "ErrImagePull": IMAGE,
    "ImageInspectError": IMAGE,
    "RegistryUnavailable": IMAGE,
    "SignatureValidationFailed": IMAGE,
    "ErrImageNeverPull": (
        "imagePullPolicy is Never, and the image is not on the node: load it there, or change the policy."
    ),
    "InvalidImageName": "The name of the image is not valid. Correct it in the template.",
    "CreateContainerConfigError": CONFIGURATION,
    "CreateContainerError": CONFIGURATION,
    "RunContainerError": COMMAND,
    "StartError": COMMAND,
    "ContainerCannotRun": COMMAND,
    "ContainerCreating": VOLUME,
    "PodInitializing": "An init container still runs, or waits. Read its log: trainshed logs, or kubectl logs -c NAME.",
    "CrashLoopBackOff": (
        "The container ends again and again, and the kubelet waits longer each time. Read its last lines, and fix the "
        "program. Only backoffLimit ends such a loop."
    ),
    "OOMKilled": (
        "The container used more memory than its limit. Raise resources.limits.memory, or use less: fewer workers of "
        "the data loader, smaller batches. Without a limit the node itself ran out of memory: set one."
    ),
    "Evicted": (
        "The node was short of memory, disk or process ids and evicted the pod. Request what the program "
        "uses; one that "
        "writes much to its disk needs an ephemeral-storage request or a volume."
    ),
    "QuotaExceeded": (
        "A ResourceQuota of the namespace has no room. kubectl describe quota shows what is used: end other jobs, "
        "request less, or ask for more. The job goes on by itself once there is room."
    ),
    "Forbidden": "The API server does not let the operator create the pod; the message says which rule refuses it.",
    "DeniedByWebhook": (
        "An admission webhook of the cluster refuses the pod; the message is its own. Correct what it names."
    ),
    "DeniedByPolicy": "A ValidatingAdmissionPolicy refuses the pod; the message is its own. Correct what it names.",
    "WebhookUnavailable": (
        "An admission webhook cannot be called: the API server refuses all pods until it answers again."
    ),
    "NameTaken": "Another object has the name of a pod or Service of this job. Delete or rename it, or rename the job.",
    "PodStuckTerminating": (
        "A deleted pod does not go, usually because its node is lost. Delete the node, or force-delete the pod if it "
        "certainly does not run; trainshed.dev/force-delete-after does so by itself."
    ),
    "WaitingForPodGroup": (
        "The gang scheduler admits all pods at once or none. Its message says what is short: resources, a queue, or "
        "pods that the group still lacks."
    ),
    "ContainerStatusUnknown": NODE,
    "Deleted": (
        "The pod was deleted, and not by the operator. kubectl get events and the audit log of the cluster say "
        "who; the job "
        "restarts, and this does not count against backoffLimit."
    ),
    "InvalidSpec": (
        "The spec is not valid, and the message names the field. Correct it, or delete the job and create it again."
    ),
}
BY_LIMIT = {
    DEADLINE: (
        "The job was active for longer than activeDeadlineSeconds, which includes the time that pods wait for the "
        "scheduler. Raise it, or find out above what took so long."
    ),
    BACKOFF_LIMIT: (
        "All restarts of backoffLimit are used. The history shows whether it was always the same replica, node or "
        "reason: fix that, and create the job again."
    ),
    STARTUP_DEADLINE: (
        "A replica did not start within trainshed.dev/startup-deadline. What it waited for is above; raise "
        "the deadline "
        "if nodes or images take long."
    ),
}
TRACEBACK = (
    "The program ended with an error of its own: the last lines say which, and trainshed logs has the rest. With "
    "restartPolicy ExitCode a code below 128 is final; OnFailure retries it, up to backoffLimit."
)
BY_CODE = {
    137: (
        "The process got SIGKILL and was not OOMKilled: a liveness probe, the end of a grace period, or the kernel "
        "because of a child process. kubectl describe pod and the node's log say more."
    ),
    143: "The process got SIGTERM: a drain or a preemption whose condition came too late, or a kill in a script.",
    139: (
        "Segmentation fault: a native library crashed, usually CUDA, NCCL or a build for another processor. "
        "If it is always on the same node, suspect the node."
    ),
    134: (
        "SIGABRT: a native library gave up, usually CUDA, NCCL or a wrong build. If it is always on the same "
        "node, suspect the node."
    ),
}
BY_CLASS = {"Infrastructure": NODE, "Disruption": DISRUPTED}


def for_waiting(reason: str) -> str:
    """Return what to do about a replica that waits, or a job that is Blocked, with this reason; empty if unknown."""
    return BY_REASON.get(reason, "")


def for_failure(failure: Failure, limit: str = "") -> str:
    """Return what to do about a failure; `limit` is the limit that ended the job, if one did."""
    own = (
        BY_REASON.get(failure.reason)
        or BY_CODE.get(failure.exit_code or 0)
        or BY_CLASS.get(failure.kind)
        or (TRACEBACK if failure.exit_code else "")
    )
    return " ".join(filter(None, (BY_LIMIT.get(limit, ""), own)))

"""What to do about a job that waits or has failed: one paragraph for each case of docs/failures.md.

`{job}` stands for the job as commands take it, `{container}` for the container that does not run.
"""

from __future__ import annotations

import re

from trainshed.api.coerce import parse_count
from trainshed.api.job import Document
from trainshed.api.status import BACKOFF_LIMIT, DEADLINE, STARTUP_DEADLINE, Failure
from trainshed.plan.failures import APPLICATION, DISRUPTION, HANG, INFRASTRUCTURE

from . import pull_advice
from .cluster_advice import CLAIM, FORBIDDEN, GANG, NO_CLAIM, QUEUE_LIMIT, SCHEDULING, for_placing

#: What is said of a job that is not over, after one of the cases below.
RETRIED = "Trainshed tries again by itself."
PULLED = (
    "The kubelet tries again by itself, at least every 5 minutes. For another image change the template, then run "
    "trainshed restart {job}"
)
CHANGED = "After a change of the template run trainshed restart {job}"
FREE = "The job restarts by itself, and that does not count against backoffLimit."
#: What is said of one that has failed.
OVER = "A job that is over does not run again: delete it, and create it again."

CONFIGURATION = (
    "The container needs something that does not exist, usually a ConfigMap, a Secret or a key in it; the message "
    "names it. Create it, and the container starts by itself."
)
RUNTIME = (
    "The container runtime of the node cannot create the container. If other pods on that node have the same problem, "
    "ask the administrator to look at the node."
)
VOLUME = (
    "The kubelet cannot mount a volume, or cannot set up the network of the pod. Check that the ConfigMaps, Secrets "
    "and PersistentVolumeClaims in the message exist: trainshed events {job} shows what the kubelet says."
)
SLOW = (
    "The node may still pull the image: a large one takes minutes. trainshed events {job} shows Pulling and Pulled, "
    "and how long it took. If nothing comes, ask the administrator to look at the node."
)
COMMAND = (
    "The command cannot be started: the image has no such file, or it is not executable. Correct command and args of "
    "the template, or the image."
)
NODE = (
    "The node could not run the pod; the program is not at fault. If it is always the same node, ask the administrator "
    "to cordon it."
)
TAKEN = "The program is not at fault. What was trained since the last checkpoint is lost."
POLICY = "The message is that of the {who}. Change the job as it asks, or ask for an exception."
OTHERS = (
    "Another client or an admission webhook changes what Trainshed writes; the message says what. Ask its owner to "
    "leave the objects of jobs alone."
)
KUEUE = (
    "A smaller job, another queue, or a higher priority (label kueue.x-k8s.io/priority-class) gets quota sooner. "
    "kubectl get localqueue shows how many jobs wait."
)
#: Cases by Kubernetes' reason, or one of the operator, of what a replica waits for or has failed of.
BY_REASON = {
    # Pods without a node.
    **dict.fromkeys(("Unschedulable", "SchedulerError"), SCHEDULING),
    "SchedulingGated": (
        "The pods have a scheduling gate, which the controller that set it has to remove: kubectl get pod -o yaml "
        "shows spec.schedulingGates."
    ),
    "NotScheduled": "Check schedulerName in the template, and that this scheduler runs.",
    # Containers that wait.
    **dict.fromkeys(
        ("ImagePullBackOff", "ErrImagePull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"),
        pull_advice.IMAGE,
    ),
    "ErrImageNeverPull": (
        "imagePullPolicy is Never, and the node does not have the image: load it there, or change the policy."
    ),
    "InvalidImageName": "The name of the image is not valid: correct it in the template.",
    "CreateContainerConfigError": CONFIGURATION,
    **dict.fromkeys(
        ("CreateContainerError", "CreatePodSandboxError", "PreCreateHookError", "PreStartHookError"), RUNTIME
    ),
    **dict.fromkeys(("RunContainerError", "StartError", "ContainerCannotRun"), COMMAND),
    "PostStartHookError": "The postStart hook of the container fails: correct lifecycle.postStart of the template.",
    "ContainerCreating": SLOW,
    "PodInitializing": (
        "The pod waits for an init container, whose log says what it does: trainshed logs {job} --container {container}"
    ),
    "CrashLoopBackOff": (
        "The program ends again and again, and the kubelet waits longer each time, up to 5 minutes. Fix the program: "
        "trainshed logs {job} --previous shows what it printed."
    ),
    # Failures of containers and pods.
    "OOMKilled": (
        "The container used more memory than its limit. Raise resources.limits.memory, or use less: fewer workers of "
        "the data loader, smaller batches."
    ),
    "DeadlineExceeded": (
        "The pod was active longer than activeDeadlineSeconds of its own template permits. Raise that, or use "
        "runPolicy.activeDeadlineSeconds, which limits the job."
    ),
    "ExitedEarly": (
        "A worker ended before the launcher had succeeded, so that the result of the launcher is not accepted. The log "
        "of that worker says why it ended."
    ),
    "ExitCodeUnknown": (
        "Neither the kubelet nor the container runtime knows how the pod ended. If it is always the same node, ask the "
        "administrator to cordon it."
    ),
    "ContainerStatusUnknown": (
        "The kubelet lost the state of the container, so that its exit code means nothing. If it is always the same "
        "node, ask the administrator to cordon it."
    ),
    "Evicted": (
        "The node was short of memory, disk or process ids; pods that use more than they request are evicted first. "
        "Request what the program uses."
    ),
    "EvictionByEvictionAPI": f"An administrator drained the node, or a client evicted the pod. {TAKEN}",
    **dict.fromkeys(
        ("PreemptionByScheduler", "Preempting", "Preempted"),
        f"{TAKEN} With a PriorityClass of higher priority that happens less often.",
    ),
    "DeletionByTaintManager": (
        f"The node got a taint that the pod does not tolerate, such as not-ready: kubectl describe node. {TAKEN}"
    ),
    **dict.fromkeys(("DeletionByPodGC", "NodeLost"), TAKEN),
    **dict.fromkeys(("Terminated", "NodeShutdown", "Shutdown"), f"The node was shut down. {TAKEN}"),
    "TerminationByKubelet": (
        f"The node was short of something, was shut down, or needed room for a critical pod. {TAKEN}"
    ),
    **dict.fromkeys(
        ("Deleted", "PodDisappeared"),
        "A user or another controller deleted the pod; the audit log of the cluster says who.",
    ),
    # Pods that cannot be created or deleted.
    "QuotaExceeded": (
        "A ResourceQuota of the namespace has no room: kubectl describe quota shows what is used. End other jobs, "
        "request less, or ask for more. The job goes on by itself once there is room."
    ),
    "Forbidden": "The API server does not permit the pods; the message says why. Correct that.",
    "Invalid": "The API server does not accept the pods; the message names the field of the template to correct.",
    "NamespaceTerminating": (
        "The namespace is being deleted, and this job with it. Create the job in another namespace."
    ),
    "DeniedByWebhook": POLICY.format(who="admission webhook of the cluster"),
    "DeniedByPolicy": POLICY.format(who="ValidatingAdmissionPolicy"),
    "WebhookUnavailable": (
        "An admission webhook does not answer, and the API server refuses all pods until it does. Ask its owner to "
        "look at it."
    ),
    "NameConflict": "Delete the other object that has the name, or create this job with another name.",
    "PreviousJobTerminating": "The job goes on by itself once the pods of the deleted job of the same name are gone.",
    **dict.fromkeys(("LabelRemoved", "AlteredOnCreation", "AlteredOnUpdate", "UndoneByOthers"), OTHERS),
    **dict.fromkeys(("ConflictEachTime", "StatusRejected", "StatusReverted"), OTHERS),
    "PodStuckTerminating": (
        "If the node is gone for good, run kubectl delete node NODE. If the processes of the pod certainly do not run "
        "any more, run kubectl delete pod POD --force. If in doubt ask the administrator: two pods of one rank may "
        "corrupt a checkpoint."
    ),
    "WaitingForPodGroup": (
        "The gang scheduler admits all pods of the job at once, or none; its message says what is short. The job "
        "starts by itself once there is room for all. Request less, or use another queue."
    ),
    "PodGroupNotServed": "Ask the administrator: the cluster lacks the API that the operator is set to use.",
    **dict.fromkeys(
        ("DifferentPriorities", "DifferentSchedulers"), "Give that field the same value in the templates of all roles."
    ),
    "InvalidSpec": "The spec is not valid, and the message names the field. trainshed lint -f FILE finds this before.",
}
#: Cases of a reason whose message has these words.
BY_MESSAGE = {
    ("Unschedulable", "persistentvolumeclaim .*not found"): NO_CLAIM,
    ("Unschedulable", "persistentvolumeclaim"): CLAIM,
    ("SchedulingGated", "kueue's admission"): KUEUE,
    **{("Unschedulable", words): QUEUE_LIMIT for words in ("overlimit", "overquota")},
    **{("Unschedulable", words): GANG for words in ("pod group", "podgroup", "pod-group", "gang")},
    ("WaitingForPodGroup", "queue resource quota"): QUEUE_LIMIT,
    ("ContainerCreating", "is not mounted"): VOLUME,
    ("CrashLoopBackOff", "init container"): (
        "The init container ends again and again, and no limit but trainshed.dev/startup-deadline ends that. Fix it: "
        "trainshed logs {job} --container {container} --previous shows what it printed."
    ),
    **{("Forbidden", words): text for words, text in FORBIDDEN.items()},
    ("PodStuckTerminating", "finalizers"): (
        "A controller keeps the pod by its finalizer: ask the owner of that controller why it does not remove it."
    ),
    ("PodStuckTerminating", "the operator force-deletes"): "The job goes on by itself once the pod is gone.",
    ("NotCreated", "others have deleted"): (
        "Another client or controller deletes the pods as soon as they are created: the audit log of the cluster says "
        "who."
    ),
    ("OOMKilled", "no memory limit set"): (
        "The template has no memory limit for the container, so the node ran out of memory, unless a LimitRange of the "
        "namespace sets one: kubectl describe limitrange. Set resources.limits.memory, and use less: fewer workers of "
        "the data loader, smaller batches."
    ),
    ("Evicted", "ephemeral"): (
        "The pod used more local disk than its own limits permit. Raise the limit of ephemeral-storage or sizeLimit, "
        "write less, or write to a volume."
    ),
}
#: What is added while the job is not over.
MEANWHILE = {
    **dict.fromkeys((reason for reason, text in BY_REASON.items() if text == pull_advice.IMAGE), PULLED),
    **dict.fromkeys(
        (reason for reason, text in BY_REASON.items() if text == RUNTIME), "The kubelet tries again by itself."
    ),
    **dict.fromkeys(("ErrImageNeverPull", "InvalidImageName", "RunContainerError", "PostStartHookError"), CHANGED),
    **dict.fromkeys(("Invalid", "DifferentPriorities", "DifferentSchedulers"), CHANGED),
    **dict.fromkeys(("Forbidden", "DeniedByWebhook", "DeniedByPolicy", "WebhookUnavailable", "NameConflict"), RETRIED),
    **dict.fromkeys((reason for reason, text in BY_REASON.items() if text == OTHERS), RETRIED),
}
BY_LIMIT = {
    DEADLINE: (
        "Raise activeDeadlineSeconds, or make the job shorter. The time that pods wait for nodes and images counts as "
        "well: trainshed events {job} shows it as long as the API server keeps Events."
    ),
    BACKOFF_LIMIT: "The job has used all its restarts; the history shows whether they had the same cause.",
    STARTUP_DEADLINE: "Raise trainshed.dev/startup-deadline if nodes or images take that long.",
}
PROGRAM = (
    "The program ended with an error of its own: the last lines say which. trainshed logs {job} has the rest, as long "
    "as the pod exists."
)
BY_CODE = {
    137: (
        "SIGKILL: the kernel when memory was short, a liveness probe, or the end of a grace period. A container that "
        "used more memory than its limit is not always reported as OOMKilled, such as when the kernel killed a child "
        "process of it: compare resources.limits.memory of the template with what the program needs. trainshed events "
        "{job} and the log of the node may say more."
    ),
    143: "The process was asked to end: by a drain, a preemption, or a kill in a script.",
    139: (
        "A native library crashed, usually CUDA, NCCL or a build for another processor. If it is always on the same "
        "node, suspect the node."
    ),
    134: "A native library gave up, usually CUDA or NCCL. If it is always on the same node, suspect the node.",
    135: (
        "SIGBUS: usually shared memory was used up, of which a container has 64 MiB. Mount an emptyDir with medium "
        "Memory at /dev/shm, or use fewer workers of the data loader."
    ),
    **dict.fromkeys((132, 136), "The processor could not execute the program, often a build for another processor."),
    127: COMMAND,
    126: COMMAND,
}
#: What is said of other signals: 128 plus the number is the exit code of a program that one has ended.
SIGNALS, SIGNAL = (
    range(129, 160),
    "A signal ended the program, which another process sent: a script, or the program itself.",
)
WHILE_IT_HANGS = "While it hangs, trainshed stacks {job} shows what each rank does."
HUNG = (
    "The training made no progress. If that comes again on the same node, suspect the node or its network; if it is "
    f"always at the same step, suspect the program. {WHILE_IT_HANGS}"
)
#: What is said of a hang of which the guilty rank is not known.
HUNG_SOMEWHERE = (
    "The training made no progress, and nothing shows which rank is the cause. If it is always at the same step, "
    f"suspect the program. {WHILE_IT_HANGS}"
)
BY_CLASS = {INFRASTRUCTURE: NODE, DISRUPTION: TAKEN, APPLICATION: PROGRAM, HANG: HUNG}
#: What is said of a container that the kubelet has killed because of one of its probes.
PROBE = (
    "The kubelet killed the container because a probe of it failed, as the kubelet says above. Correct the probe, or "
    "give the program more time: initialDelaySeconds, timeoutSeconds, periodSeconds, failureThreshold."
)
#: The same with the figures of the probe in the template, and those that Kubernetes takes for what it does not say.
PROBE_FIGURES = (
    "The kubelet killed the container because its {kind} failed, as the kubelet says above. The probe has {figures}: "
    "correct it, or give the program more time."
)
PROBE_DEFAULTS = {"failureThreshold": 3, "periodSeconds": 10, "timeoutSeconds": 1, "initialDelaySeconds": 0}
RESUME = "trainshed resume {job} starts it, with new pods."
STOPPED = (
    "The operator does not run, or it does not watch this namespace: trainshed doctor says which. It goes on where it "
    "stopped once it runs."
)
HANGS = "If it makes no progress: trainshed stacks {job} shows what each rank is doing, and which one hangs."
STALLED = (
    "Look before it is restarted: {first} Then trainshed restart {job} starts the job again from its last checkpoint, "
    "which trainshed.dev/hang-action: Restart does by itself. If it does train, raise trainshed.dev/hang-deadline."
)
#: What comes first, where it is known who is behind, and where it is not.
BEHIND_KNOWN = (
    "begin with the rank or the replica that is named above, and its node. trainshed stacks {job} shows what each rank "
    "is doing."
)
BEHIND_UNKNOWN = (
    "steps show that a job hangs, and not which rank is the cause. trainshed stacks {job} shows what each rank is "
    "doing, and which one does something else. The operator names the rank by itself if it may read NCCL's counts, "
    "which an administrator permits (hangs.ncclRas.enabled of the chart, docs/hangs.md)."
)
#: What is said of a deadline that comes before the training ends; `{seconds}` would be enough.
TOO_LATE = (
    "Give it more time, which needs no restart: kubectl patch {job} --type merge -p "
    '\'{{"spec":{{"runPolicy":{{"activeDeadlineSeconds":{seconds}}}}}}}\'. Else see that it saves checkpoints: '
    "what it has trained since the last one is lost when it is stopped."
)
BESIDE = (
    "The training goes on. trainshed logs {job} --container {container} says why the container beside it does not run."
)
ELSEWHERE = "Ask the owner of that controller. The Workload of a job of MultiKueue names the cluster in which it runs."


def for_stalled(*, unknown: bool) -> str:
    """Return what to do about a job that makes no progress; `unknown` is that nothing shows who is behind."""
    return STALLED.replace("{first}", BEHIND_UNKNOWN if unknown else BEHIND_KNOWN)


def for_waiting(reason: str, message: str = "", room: str = "") -> str:
    """Return what to do about a replica that waits, or a job that is Blocked, with this reason; empty if unknown.

    `room` is what the sizes of nodes say of pods without one; empty if nothing is known of them.
    """
    return " ".join(filter(None, (_by_reason(reason, message, room), MEANWHILE.get(reason, ""))))


def for_failure(failure: Failure, limit: str = "", *, over: bool, probe: str = "") -> str:
    """Return what to do about a failure; `limit` is the limit that ended the job, if one did.

    `probe` is what is said of the probe because of which the kubelet has killed the container; empty without.
    """
    text = f"{failure.message} {failure.termination_message}"
    hang = HUNG_SOMEWHERE if failure.kind == HANG and not failure.pod else ""
    code = failure.exit_code or 0
    by_code = BY_CODE.get(code, SIGNAL if code in SIGNALS and failure.kind == APPLICATION else "")
    known = hang or _by_reason(failure.reason, text) or by_code or BY_CLASS.get(failure.kind, "")
    if failure.container and "--container" not in known:
        known = known.replace("trainshed logs {job}", f"trainshed logs {{job}} --container {failure.container}")
    parts = [BY_LIMIT.get(limit, ""), "" if limit == DEADLINE else probe or known]
    parts.append(OVER if over else FREE if failure.kind in (INFRASTRUCTURE, DISRUPTION) else "")
    return " ".join(filter(None, parts))


def for_probe(kind: str, probe: Document) -> str:
    """Return what to do about a probe that has failed; `kind` is its field, `probe` what the template says of it."""
    if not probe:
        return PROBE
    figures = [f"{name} {parse_count(probe.get(name)) or usual}" for name, usual in PROBE_DEFAULTS.items()]
    return PROBE_FIGURES.format(kind=kind, figures=", ".join(figures))


def _by_reason(reason: str, message: str, room: str = "") -> str:
    found = (
        text for (known, words), text in BY_MESSAGE.items() if known == reason and re.search(words, message.lower())
    )
    usual = BY_REASON.get(reason, "")
    if reason == "Unschedulable":
        usual = for_placing(message, room)
    elif usual == pull_advice.IMAGE:
        usual = pull_advice.for_pull(message)
    return next(found, usual)

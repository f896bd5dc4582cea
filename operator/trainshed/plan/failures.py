"""The classification of a pod's failure: application, infrastructure, disruption, or caused by another replica."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from msgspec.structs import replace

from trainshed.api.job import RestartPolicy
from trainshed.api.objects import Container, NodeReport, Phase, Pod, start_of
from trainshed.api.status import FREE, Failure

from .messages.phrases import ended_early

APPLICATION = "Application"
INFRASTRUCTURE, DISRUPTION = FREE
CASCADING = "Cascading"
#: The job as a whole made no progress (see `hangs.py`); no pod has this class by itself.
HANG = "Hang"

#: The class of each reason that Kubernetes sets; a container that exited with a reason not listed here is Application.
#: The names are from Kubernetes' source; the file is named above each group.
CLASSES: Mapping[str, str] = MappingProxyType(
    {
        # The condition DisruptionTarget (KEP-3329; api/core/v1/types.go, controller/tainteviction, controller/podgc).
        # A reason of this condition that is not listed is a disruption as well: the condition says so.
        "PreemptionByScheduler": DISRUPTION,
        "DeletionByTaintManager": DISRUPTION,
        "EvictionByEvictionAPI": DISRUPTION,
        "DeletionByPodGC": DISRUPTION,
        "TerminationByKubelet": DISRUPTION,
        # A pod that is removed from its node (kubelet/eviction/helpers.go, kubelet/preemption, kubelet/nodeshutdown,
        # util/node; Shutdown is the name of Terminated before 1.22).
        "Evicted": DISRUPTION,  # unless it used more than its own limits allow: see DISK_LIMIT_MESSAGES
        "Preempting": DISRUPTION,
        "Preempted": DISRUPTION,
        "Terminated": DISRUPTION,
        "NodeShutdown": DISRUPTION,
        "Shutdown": DISRUPTION,
        "NodeLost": DISRUPTION,
        # A pod that a kubelet does not admit (admissionRejectionReasons of kubelet/kubelet.go, kubelet/lifecycle,
        # kubelet/cm, the scheduler's plugins); so is every reason that begins with OutOf, for any resource.
        "UnexpectedAdmissionError": INFRASTRUCTURE,
        "InvalidNodeInfo": INFRASTRUCTURE,
        "UnknownReason": INFRASTRUCTURE,
        "UnexpectedPredicateFailureType": INFRASTRUCTURE,
        "NodeAffinity": INFRASTRUCTURE,
        "NodeName": INFRASTRUCTURE,
        "NodePorts": INFRASTRUCTURE,
        "NodeResourcesFit": INFRASTRUCTURE,
        "TaintToleration": INFRASTRUCTURE,
        "TopologyAffinityError": INFRASTRUCTURE,
        "SMTAlignmentError": INFRASTRUCTURE,
        "VolumeAttachmentLimitExceeded": INFRASTRUCTURE,
        "AppArmor": INFRASTRUCTURE,
        "SysctlForbidden": INFRASTRUCTURE,
        "PodOSSelectorNodeLabelDoesNotMatch": INFRASTRUCTURE,
        "PodOSNotSupported": INFRASTRUCTURE,
        "PodFeatureUnsupported": INFRASTRUCTURE,
        "PodLevelResourcesNotSupported": INFRASTRUCTURE,
        "InitContainerRestartPolicyForbidden": INFRASTRUCTURE,
        "SupplementalGroupsPolicyNotSupported": INFRASTRUCTURE,
        # A pod that ran longer than its own template allows (kubelet/active_deadline.go).
        "DeadlineExceeded": APPLICATION,
        # A container that has terminated (kubelet/container/runtime.go, containerd and CRI-O), because of the program
        # or of the node. How a ContainerStatusUnknown ended is not known: its exit code 137 is made up by the kubelet.
        "Error": APPLICATION,
        "OOMKilled": APPLICATION,
        "StartError": APPLICATION,
        "ContainerCannotRun": APPLICATION,
        "ContainerStatusUnknown": INFRASTRUCTURE,
        # A container that waits (kubelet/images/types.go, kubelet/kuberuntime, kubelet/container/sync_result.go). This
        # is no failure while it waits; the class applies when the start-up deadline is exceeded.
        "ErrImagePull": INFRASTRUCTURE,
        "ImagePullBackOff": INFRASTRUCTURE,
        "ImageInspectError": INFRASTRUCTURE,
        "RegistryUnavailable": INFRASTRUCTURE,
        "SignatureValidationFailed": INFRASTRUCTURE,
        "ErrImageNeverPull": APPLICATION,
        "InvalidImageName": APPLICATION,
        "CreateContainerConfigError": APPLICATION,
        "CreateContainerError": INFRASTRUCTURE,
        "RunContainerError": APPLICATION,
        "PreCreateHookError": INFRASTRUCTURE,
        "PreStartHookError": INFRASTRUCTURE,
        "PostStartHookError": APPLICATION,
        "CrashLoopBackOff": APPLICATION,
        "CreatePodSandboxError": INFRASTRUCTURE,
        "ContainerCreating": INFRASTRUCTURE,
        "PodInitializing": INFRASTRUCTURE,
        # A pod without a node (the condition PodScheduled, api/core/v1/types.go).
        "Unschedulable": INFRASTRUCTURE,
        "SchedulingGated": INFRASTRUCTURE,
        "SchedulerError": INFRASTRUCTURE,
    }
)
#: Reasons of containers that wait for their image (kubelet/images/types.go).
IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
        "ErrImageNeverPull",
        "InvalidImageName",
    }
)
#: The reason of the condition DisruptionTarget for all for which a kubelet removes a pod; the pod has the exact one.
BY_KUBELET = "TerminationByKubelet"
#: The reason of a container that waits for init containers.
INITIALIZING = "PodInitializing"
#: The prefix of the reason for which a kubelet rejects a pod when the node lacks a resource, such as `OutOfcpu`.
OUT_OF = "OutOf"
#: Parts of the message of an eviction because the pod used more local disk than its own limits allow; it would do so
#: on another node as well. Kubelets set no DisruptionTarget on these only (localStorageEviction in kubelet/eviction).
DISK_LIMIT_MESSAGES = ("exceeds the limit", "exceeds the total limit", "exceeded its local ephemeral storage limit")
#: Reasons of kubelets for pods that they do not admit, besides those of the class Infrastructure.
NOT_ADMITTED = ("NodeShutdown",)
#: Parts of the message of an eviction at admission (kubelet/eviction); pods that ran are evicted with other messages.
EVICTED_AT_ADMISSION = ("Pod was rejected", "The node had condition")
#: Reasons of containers that never ran: the exit code (126, 127, 128) is made up by the runtime and means nothing.
NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})
#: Exit codes of a program that is being terminated: by SIGTERM, or by SIGKILL after its grace period.
SIGKILLED = 137
TERMINATED = frozenset({SIGKILLED, 143})
#: The number of characters of a message that are kept, from its end: a traceback ends with the exception.
TERMINATION_MESSAGE_LIMIT = 1024
#: The most nodes that are read for the failures of a job.
MOST_NODES = 3
#: A problem that is found within this time after a failure began before it: detectors look every few seconds or
#: minutes.
FOUND_WITHIN = timedelta(minutes=5)
#: Reasons that stay Application: as a rule the program used more memory than its own limit, which no node explains.
OWN_FAULT = frozenset({"OOMKilled"})


def failure_class(reason: str) -> str:
    """Return the class of a reason, or an empty string for an unknown reason."""
    return INFRASTRUCTURE if reason.startswith(OUT_OF) else CLASSES.get(reason, "")


def outcome(pod: Pod, framework_container: str, policy: RestartPolicy) -> Phase:
    """Return the phase of the framework's own container; other containers do not count.

    Kubernetes' phase is Running while any container runs, and Failed if any has failed. It is used only where the pod
    as a whole was ended from outside, or where the container is not known. A container that the kubelet restarts has
    not ended.
    """
    own = own_container(pod, framework_container)
    if own and pod.phase is Phase.RUNNING and own.waiting and not has_begun(own):
        return Phase.PENDING
    if own is None or own.exit_code is None or pod.phase is Phase.SUCCEEDED or _being_removed(pod) or pod.reason:
        return pod.phase
    if own.exit_code == 0:
        return pod.phase if policy is RestartPolicy.ALWAYS else Phase.SUCCEEDED
    return pod.phase if policy.restarts_in_place else Phase.FAILED


def failure(pod: Pod, framework_container: str, now: datetime) -> Failure | None:
    """Return the failure of this pod, or None; `now` is its time if the pod has none.

    A pod that is deleted before any container of it ran, other than sidecars, has no failure: it is created again
    without a restart.
    """
    if pod.phase is Phase.SUCCEEDED or (_being_removed(pod) and not _has_run(pod, framework_container)):
        return None
    ended = culprit(pod, framework_container)
    since = ended.finished if ended and ended.finished else pod.deletion_requested or now
    if found := _ended_from_outside(pod, ended):
        return _failure(pod, *found, None, since)
    if pod.phase is not Phase.FAILED:
        return None
    if ended is None or ended.exit_code is None or failure_class(ended.reason) == INFRASTRUCTURE:
        reason = ended.reason if ended and ended.exit_code is not None else pod.reason or "ExitCodeUnknown"
        return _failure(pod, INFRASTRUCTURE, reason, None, since)
    return _failure(pod, APPLICATION, ended.reason or "Error", ended, since)


def has_saved(pod: Pod, framework_container: str) -> bool:
    """Return whether a pod of a job that saves on SIGTERM has ended with 0 because it was deleted: it has not finished.

    A pod that ends in the second in which its deletion is requested is taken to have saved: then it only runs again.
    """
    own, asked = own_container(pod, framework_container), pod.deletion_requested
    if pod.phase is not Phase.SUCCEEDED or own is None or own.exit_code != 0 or own.finished is None or asked is None:
        return False
    return own.finished >= asked or not pod.grace


def rejected(pod: Pod) -> bool:
    """Return whether a kubelet did not admit the pod."""
    if pod.phase is not Phase.FAILED or pod.disruption:
        return False
    if any(item.started or item.exit_code is not None or item.restarts for item in pod.containers):
        return False
    if pod.reason in NOT_ADMITTED or failure_class(pod.reason) == INFRASTRUCTURE:
        return True
    return failure_class(pod.reason) == DISRUPTION and any(words in pod.message for words in EVICTED_AT_ADMISSION)


def early_exit(
    member: tuple[Pod, Container | None], succeeded: Pod, winner: Container | None, now: datetime
) -> Failure | None:
    """Return the failure of a pod that was deleted, exited or was restarted before pod `succeeded` succeeded, or None.

    `member` is the pod with the framework's container in it, `winner` that of `succeeded`. MPI launchers have been
    observed to exit with 0 when they lose a worker (Open MPI 5.0.7, 19 times of 24).
    """
    pod, own = member
    if _being_removed(pod) or failure_class(pod.reason) == DISRUPTION:
        return _failure(pod, DISRUPTION, why_removed(pod), None, now)
    if own is None or winner is None or winner.finished is None:
        return None
    exited = pod.over and own.finished is not None and own.finished < winner.finished
    restarted = own.restarts and own.started and winner.started and winner.started < own.started < winner.finished
    if not (exited or restarted):
        return None
    why = ended_early(exited=exited, winner=succeeded.name)
    return replace(_failure(pod, APPLICATION, "ExitedEarly", own, now), termination_message=why)


def own_container(pod: Pod, framework_container: str) -> Container | None:
    """Return the framework's own container: the one with its name, or the only one; None if it is not known.

    Others are injected before and after it. Without a container of its name, as after an admission webhook has renamed
    it, the phase of the pod decides, as in v1.
    """
    if len(pod.containers) == 1 and not pod.containers[0].init:  # the usual case: this only saves time
        return pod.containers[0]
    proper = [container for container in pod.containers if not container.init]
    named = (container for container in proper if container.name == framework_container)
    return next(named, proper[0] if len(proper) == 1 else None)


def container_restarts(pod: Pod, framework_container: str) -> int:
    """Return how often the kubelet has restarted the framework's own container; all but init containers if unknown."""
    own = own_container(pod, framework_container)
    counted = [own] if own else [container for container in pod.containers if not container.init]
    return sum(container.restarts for container in counted)


def culprit(pod: Pod, framework_container: str) -> Container | None:
    """Return the container that decides the pod: the framework's own, or the init container that failed before it.

    If the framework's own is not known, it is the first that failed.
    """
    own = own_container(pod, framework_container)
    if own and own.exit_code is not None:
        return own
    failed = (item for item in pod.containers if item.exit_code and not item.sidecar and (item.init or own is None))
    return next(failed, own)


def began(pod: Pod, framework_container: str) -> datetime | None:
    """Return when the container that decides the pod started, None if that is not known."""
    ended = culprit(pod, framework_container)
    return start_of(ended) if ended else None


def nodes_to_read(found: Iterable[Failure], known: Mapping[str, NodeReport]) -> tuple[str, ...]:
    """Return the nodes of the failures that happened first, without those that have been read."""
    names = [name for name in dict.fromkeys(failure.node for failure in found) if name]
    return tuple(name for name in names[:MOST_NODES] if name not in known)


def with_node(failure: Failure, started: datetime | None, reports: Mapping[str, NodeReport]) -> Failure:
    """Return the failure as one of Infrastructure if a problem of the node began while the replica ran there.

    Where the problem is older, the replica may fail for a reason of its own again and again: then its class stays.
    """
    if failure.kind != APPLICATION or failure.reason in OWN_FAULT or not node_problems(failure, started, reports)[0]:
        return failure
    return replace(failure, kind=INFRASTRUCTURE)


def node_problems(
    failure: Failure, started: datetime | None, reports: Mapping[str, NodeReport]
) -> tuple[list[str], list[str], list[str]]:
    """Return the problems that began while the replica ran, those from before, and what explains nothing by itself."""
    meanwhile: list[str] = []
    older: list[str] = []
    others: list[str] = []
    for problem in reports[failure.node].problems if failure.node in reports else ():
        if problem.since is None or (started is None and problem.lasting):
            others.append(problem.text)
        elif started and problem.lasting and problem.since < started:
            older.append(problem.text)
        elif started and started <= problem.since <= failure.time + FOUND_WITHIN:
            (meanwhile if problem.lasting else others).append(problem.text)
    return meanwhile, older, others


def _ended_from_outside(pod: Pod, ended: Container | None) -> tuple[str, str] | None:
    """Return class and reason of what ended the pod as a whole, whatever its containers did, or None."""
    if pod.reason == "Evicted" and not pod.disruption and any(words in pod.message for words in DISK_LIMIT_MESSAGES):
        return APPLICATION, pod.reason
    if _being_removed(pod) and not _failed_before_removal(pod, ended):
        return DISRUPTION, why_removed(pod)
    kind = failure_class(pod.reason) if pod.phase is Phase.FAILED else ""
    return (kind, pod.reason) if kind else None


def given_up(pod: Pod, failure: Failure) -> datetime:
    """Return from when on a replica that has failed is no part of the training: what it does after SIGTERM is lost."""
    return min(time for time in (failure.time, pod.disrupted, pod.deletion_requested) if time)


def why_removed(pod: Pod) -> str:
    """Return why a pod is or was removed: of a kubelet its own reason, which says more than that it was a kubelet."""
    own = pod.reason if failure_class(pod.reason) == DISRUPTION else ""
    return own if own and pod.disruption in ("", BY_KUBELET) else pod.disruption or "Deleted"


def _being_removed(pod: Pod) -> bool:
    return pod.deleting or bool(pod.disruption)


def _has_run(pod: Pod, framework_container: str) -> bool:
    """Return whether the framework's own container has run, or an init container before it."""
    own = own_container(pod, framework_container)
    before = (container for container in pod.containers if container.init and not container.sidecar)
    return pod.phase is not Phase.PENDING or any(has_begun(container) for container in (*before, own) if container)


def has_begun(container: Container) -> bool:
    """Return whether a container has run, or runs."""
    ended = container.exit_code is not None or container.before is not None
    return ended or container.started is not None or container.restarts > 0


def _failed_before_removal(pod: Pod, ended: Container | None) -> bool:
    """Return whether the pod had failed by itself before its deletion was requested; not known within one second.

    If the grace period is 0, the deletion time is that of the last delete request, which is the kubelet's as a rule;
    the time of the first is lost unless a condition has it. An exit code of SIGTERM or SIGKILL then means: deleted.
    """
    if pod.phase is not Phase.FAILED or ended is None or not ended.exit_code or failure_class(pod.reason) == DISRUPTION:
        return False
    if not pod.grace and ended.exit_code in TERMINATED:
        return False
    return ended.finished is not None and pod.deletion_requested is not None and ended.finished < pod.deletion_requested


def _failure(pod: Pod, kind: str, reason: str, ended: Container | None, since: datetime) -> Failure:
    ran = ended is not None and reason not in NEVER_RAN
    return Failure(
        pod=pod.name,
        kind=kind,
        reason=reason,
        exit_code=ended.exit_code if ended and ran else None,
        node=pod.node,
        termination_message=((ended.message if ended else "") or pod.message).strip()[-TERMINATION_MESSAGE_LIMIT:],
        time=ended.finished if ended and ended.finished else since,
        container=ended.name if ended and ended.init else "",
    )

"""What a pod's end says: its own fault, the infrastructure's, somebody taking it away, or the end of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from trainshed.api.job import RestartPolicy
from trainshed.api.pod import Container, Phase, Pod
from trainshed.api.status import Failure

APPLICATION = "Application"
INFRASTRUCTURE = "Infrastructure"
DISRUPTION = "Disruption"
COLLATERAL = "Collateral"

#: The class of every reason that Kubernetes gives; a container that ended by itself and is not here is the application.
#: The names are those of Kubernetes' source, whose file stands above each group.
CLASSES: Mapping[str, str] = MappingProxyType(
    {
        # The condition DisruptionTarget (KEP-3329; api/core/v1/types.go, controller/tainteviction, controller/podgc).
        # One that is not here is a disruption as well: whoever sets this condition says so.
        "PreemptionByScheduler": DISRUPTION,
        "DeletionByTaintManager": DISRUPTION,
        "EvictionByEvictionAPI": DISRUPTION,
        "DeletionByPodGC": DISRUPTION,
        "TerminationByKubelet": DISRUPTION,
        # A pod that is taken off its node (kubelet/eviction/helpers.go, kubelet/preemption, kubelet/nodeshutdown,
        # util/node; Shutdown is what Terminated was called before 1.22).
        "Evicted": DISRUPTION,  # unless it used more than its own limits allow: see OVERRUN
        "Preempting": DISRUPTION,
        "Preempted": DISRUPTION,
        "Terminated": DISRUPTION,
        "NodeShutdown": DISRUPTION,
        "Shutdown": DISRUPTION,
        "NodeLost": DISRUPTION,
        # A pod that a kubelet does not let in (admissionRejectionReasons of kubelet/kubelet.go, kubelet/lifecycle,
        # kubelet/cm, the scheduler's plugins); so does all that begins with OutOf, for any resource.
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
        # A container that has ended (kubelet/container/runtime.go, containerd and CRI-O): whether it is the program
        # or the node that gave up; of the last one nobody knows how it ended, its 137 is the kubelet's invention.
        "Error": APPLICATION,
        "OOMKilled": APPLICATION,
        "StartError": APPLICATION,
        "ContainerCannotRun": APPLICATION,
        "ContainerStatusUnknown": INFRASTRUCTURE,
        # A container that waits (kubelet/images/types.go, kubelet/kuberuntime, kubelet/container/sync_result.go): no
        # failure as long as it waits; what it is once the start-up deadline is over.
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
#: What kubelets call a pod for which there is too little of something on the node, be it `OutOfcpu` or a GPU.
TOO_LITTLE = "OutOf"
#: In the message of an eviction: the pod used more of its node's disk than its own limits allow, and would do so on
#: the next one. Kubelets give these, and only these, no DisruptionTarget (localStorageEviction in kubelet/eviction).
OVERRUN = ("exceeds the limit", "exceeds the total limit", "exceeded its local ephemeral storage limit")
#: Why a container never ran: its exit code (126, 127, 128) is the runtime's invention and says nothing.
NEVER_RAN = frozenset({"StartError", "ContainerCannotRun"})
#: How a program ends that is told to go: by SIGTERM, or by SIGKILL once its grace is over.
TOLD_TO_GO = frozenset({137, 143})
#: A message is kept to so many characters, its end rather than its beginning: that is where tracebacks say it.
LAST_WORDS = 1024


def classed(reason: str) -> str:
    """The class of a reason, or nothing if it is nobody's that we know."""
    return INFRASTRUCTURE if reason.startswith(TOO_LITTLE) else CLASSES.get(reason, "")


def outcome(pod: Pod, framework_container: str, policy: RestartPolicy) -> Phase:
    """The pod's phase, as far as the framework's own container is concerned: other containers decide nothing.

    A pod is Running while any container runs, and Failed if any has failed; only what ends it from outside counts as
    well. A container that the kubelet starts again has not ended.
    """
    own = main(pod, framework_container)
    if own is None or own.exit_code is None or pod.phase is Phase.SUCCEEDED or _dismissed(pod) or pod.reason:
        return pod.phase
    if own.exit_code == 0:
        return pod.phase if policy is RestartPolicy.ALWAYS else Phase.SUCCEEDED
    return pod.phase if policy.in_place else Phase.FAILED


def failure(pod: Pod, framework_container: str, now: datetime) -> Failure | None:
    """The failure that this pod shows, or None while it does well; `now` dates what the pod does not.

    One that is taken away before anything ran in it takes nothing with it: it is made anew, and nobody restarts.
    """
    if pod.phase is Phase.SUCCEEDED or (_dismissed(pod) and not _begun(pod)):
        return None
    ended = culprit(pod, framework_container)
    since = ended.finished if ended and ended.finished else pod.dismissed or now
    if found := _done_to_it(pod, ended):
        return _failure(pod, *found, None, since)
    if pod.phase is not Phase.FAILED:
        return None
    if ended is None or ended.exit_code is None or classed(ended.reason) == INFRASTRUCTURE:
        reason = ended.reason if ended and ended.exit_code is not None else pod.reason or "NoExitCode"
        return _failure(pod, INFRASTRUCTURE, reason, None, since)
    return _failure(pod, APPLICATION, ended.reason or "Error", ended, since)


def desertion(pod: Pod, served: Pod, now: datetime) -> Failure | None:
    """How a pod has failed one that has succeeded: it went, ended or was started again before that one was done.

    MPI launchers have been seen to end with 0 when they lose a worker (Open MPI 5.0.7, 19 times of 24).
    """
    if _dismissed(pod) or classed(pod.reason) == DISRUPTION:
        return _failure(pod, DISRUPTION, pod.disruption or pod.reason or "Deleted", None, now)
    for container in pod.containers:
        early = any(_before(container.finished, other) for other in served.containers) if pod.over else False
        anew = any(_within(container.started, other) for other in served.containers) if container.restarts else False
        if early or anew:
            end = "it exited" if early else "it was restarted"
            message = f"{end} before {served.name} succeeded, so the success of {served.name} is not accepted"
            return replace(_failure(pod, APPLICATION, "EndedEarly", container, now), message=message)
    return None


def main(pod: Pod, framework_container: str) -> Container | None:
    """The framework's own container: the one that bears its name, or the first."""
    proper = [container for container in pod.containers if not container.init]
    named = (container for container in proper if container.name == framework_container)
    return next(named, proper[0] if proper else None)


def culprit(pod: Pod, framework_container: str) -> Container | None:
    """The container whose end is the pod's: the framework's own, or the init container that kept it from running."""
    own = main(pod, framework_container)
    if own and own.exit_code is not None:
        return own
    bad = (container for container in pod.containers if container.init and container.exit_code)
    return next((container for container in bad if not container.sidecar), own)


def _done_to_it(pod: Pod, ended: Container | None) -> tuple[str, str] | None:
    """What ended a pod as a whole, whatever its containers did: the class and the reason."""
    if pod.reason == "Evicted" and not pod.disruption and any(words in pod.message for words in OVERRUN):
        return APPLICATION, pod.reason
    if _dismissed(pod) and not _ended_before_it_was_dismissed(pod, ended):
        return DISRUPTION, pod.disruption or "Deleted"
    kind = classed(pod.reason) if pod.phase is Phase.FAILED else ""
    return (kind, pod.reason) if kind else None


def _dismissed(pod: Pod) -> bool:
    return pod.deleting or bool(pod.disruption)


def _begun(pod: Pod) -> bool:
    """Whether anything has run in it."""
    ran = any(
        container.started or container.exit_code is not None or container.restarts for container in pod.containers
    )
    return ran or pod.phase is not Phase.PENDING


def _ended_before_it_was_dismissed(pod: Pod, ended: Container | None) -> bool:
    """Whether it had failed by itself when somebody asked for its deletion; within one second nobody can tell.

    Without any grace left the time is that of the last word, the kubelet's as a rule; the first is forgotten, unless a
    condition dates it. Who has ended as one ends who is told to go was told then.
    """
    if pod.phase is not Phase.FAILED or ended is None or not ended.exit_code or classed(pod.reason) == DISRUPTION:
        return False
    if not pod.grace and ended.exit_code in TOLD_TO_GO:
        return False
    return ended.finished is not None and pod.dismissed is not None and ended.finished < pod.dismissed


def _failure(pod: Pod, kind: str, reason: str, ended: Container | None, since: datetime) -> Failure:
    ran = ended is not None and reason not in NEVER_RAN
    return Failure(
        pod=pod.name,
        kind=kind,
        reason=reason,
        exit_code=ended.exit_code if ended and ran else None,
        node=pod.node,
        message=((ended.message if ended else "") or pod.message).strip()[-LAST_WORDS:],
        time=ended.finished if ended and ended.finished else since,
        container=ended.name if ended and ended.init else "",
    )


def _before(time: datetime | None, other: Container) -> bool:
    return time is not None and not other.init and other.finished is not None and time < other.finished


def _within(time: datetime | None, other: Container) -> bool:
    return time is not None and _before(time, other) and other.started is not None and time > other.started

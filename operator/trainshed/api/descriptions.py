"""What each field of a job means: the descriptions in the CRDs, in `kubectl explain` and on the API reference page.

A field is named by its path as in `kubectl explain`: lists and maps add no part to it. `replicaSpecs` stands for the
field of the kind that holds the replica types. A name that begins with a kind is of that kind only, and goes before the
name without one. `{roles}`, `{container}` and `{restart_policy}` are those of the kind. `trainshed crds` fails if a
field has no description here.
"""

from __future__ import annotations

from .framework import Framework

KINDS = {
    "TFJob": "A training job of TensorFlow. Each pod gets TF_CONFIG.",
    "PyTorchJob": "A training job of PyTorch, with env:// or torchrun, with a fixed or an elastic number of workers.",
    "XGBoostJob": "A training job of XGBoost, LightGBM or another program that uses Rabit's tracker.",
    "PaddleJob": "A training job of PaddlePaddle: collective, or with parameter servers.",
    "JAXJob": "A training job of JAX. All processes run the same program; process 0 is the coordinator.",
    "MPIJob": "A training job of MPI: a launcher starts ranks in the workers, and its exit code is the job's result.",
}
FIELDS = {
    "spec": "The desired job, as the user writes it.",
    # The run policy.
    "spec.runPolicy": "Limits of the job as a whole, what is deleted at its end, and how it is queued.",
    "spec.runPolicy.cleanPodPolicy": (
        "Which pods are deleted when the job is over: All, Running (those that still run), or None. Default: the"
        " operator's --default-clean-pod-policy, which is None unless it is set."
    ),
    "spec.runPolicy.ttlSecondsAfterFinished": (
        "Seconds after the end of the job at which the job and all its objects are deleted. Default: never."
    ),
    "spec.runPolicy.activeDeadlineSeconds": (
        "Seconds from status.startTime at which the job fails if it is not over. Default: no limit. Time in suspension"
        " does not count."
    ),
    "spec.runPolicy.backoffLimit": (
        "Number of restarts after which the next failure fails the job. Disruptions and failures of the infrastructure"
        " do not count; container restarts by the kubelet do. Default: no limit."
    ),
    "MPIJob/v2beta1 spec.runPolicy.backoffLimit": (
        "Number of restarts after which the next failure fails the job. Disruptions and failures of the infrastructure"
        " do not count; container restarts by the kubelet do. Default: 6."
    ),
    "spec.runPolicy.schedulingPolicy": (
        "Settings of the PodGroup, if the operator runs with a gang scheduler (--gang-scheduler-name). Otherwise they"
        " have no effect."
    ),
    "spec.runPolicy.schedulingPolicy.minAvailable": (
        "Smallest number of pods that the gang scheduler places together. Default: all pods of the job."
    ),
    "spec.runPolicy.schedulingPolicy.queue": "Queue of Volcano or KAI. It may be set and removed, but not changed.",
    "spec.runPolicy.schedulingPolicy.minResources": (
        "Resources that the gang scheduler must find before it places pods, such as cpu. Default: the sum of the"
        " requests of all containers, and of the limits of resources without a request."
    ),
    "spec.runPolicy.schedulingPolicy.priorityClass": (
        "PriorityClass of the PodGroup, for Volcano, KAI and Kubernetes' own gang scheduling; for the last one also of"
        " pods whose templates name none."
    ),
    "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds": (
        "Seconds that the coscheduling plugin waits until all pods can be placed."
    ),
    "spec.runPolicy.suspend": (
        "If true, the job has no pods: those that run are deleted. If it becomes false, pods are created and the start"
        " time begins again. Queueing systems set it."
    ),
    "spec.runPolicy.managedBy": (
        "The controller that is responsible for the job. Any other value than the default leaves the job to another"
        " controller. Immutable."
    ),
    # The replica types.
    "spec.replicaSpecs": "The replicas of the job by replica type: {roles}.",
    "spec.replicaSpecs.replicas": (
        "Number of replicas of this type. Default: 1. All replica types together have at most 100000."
    ),
    "MPIJob spec.replicaSpecs.replicas": (
        "Number of replicas of this type. Default: 1 launcher, and no workers. All replica types together have at most"
        " 100000."
    ),
    "MPIJob/v2beta1 spec.replicaSpecs.replicas": (
        "Number of replicas of this type; required for workers. All replica types together have at most 100000."
    ),
    "TFJob spec.replicaSpecs": "The replicas of the job by replica type, in any case of letters: {roles}.",
    "spec.replicaSpecs.restartPolicy": (
        "What happens when the framework's container fails. Never: the job fails. ExitCode: codes of 128 and above are"
        " retried with a new pod, others fail the job. OnFailure, Always: the kubelet restarts the container."
        " Default: {restart_policy}."
    ),
    "MPIJob/v2beta1 spec.replicaSpecs.restartPolicy": (
        "What happens when the first container fails. Never: the job fails. ExitCode: codes of 128 and above are"
        " retried with a new pod, others fail the job. OnFailure: the kubelet restarts the container. Always is not"
        " allowed. Default: OnFailure for the launcher, Never for workers."
    ),
    "spec.replicaSpecs.template": (
        "Template of the pods of this type; its fields are those of a Pod (`kubectl explain pod`). {container}"
    ),
    # Fields of one kind.
    "spec.successPolicy": (
        "When a job without chief succeeds. Empty: when worker 0 succeeds, or all workers. AllWorkers: when all"
        " workers succeed."
    ),
    "spec.enableDynamicWorker": (
        "If true, workers may be added and removed while the job runs: the TF_CONFIG of a worker lists itself and the"
        " parameter servers only."
    ),
    "spec.nprocPerNode": (
        "Processes that torchrun starts in each pod: a number, auto, cpu or gpu (PET_NPROC_PER_NODE). Default: auto."
    ),
    "spec.elasticPolicy": "Makes the job elastic: torchrun may train with fewer or more workers.",
    "PaddleJob spec.elasticPolicy": "Accepted for training-operator v1; has no effect.",
    "spec.elasticPolicy.minReplicas": (
        "Smallest number of workers with which torchrun trains. Default: maxReplicas, or the number of workers."
    ),
    "PaddleJob spec.elasticPolicy.minReplicas": "Smallest number of workers. Has no effect.",
    "spec.elasticPolicy.maxReplicas": (
        "Largest number of workers with which torchrun trains. Default: minReplicas, or the number of workers."
    ),
    "PaddleJob spec.elasticPolicy.maxReplicas": "Largest number of workers. Has no effect.",
    "spec.elasticPolicy.maxRestarts": (
        "Number of times that torchrun restarts its processes, also when a worker joins or leaves (PET_MAX_RESTARTS)."
    ),
    "PaddleJob spec.elasticPolicy.maxRestarts": "Number of restarts. Has no effect.",
    "spec.elasticPolicy.metrics": (
        "Metrics of the HorizontalPodAutoscaler of the workers, as in `kubectl explain hpa.spec.metrics`. Without"
        " metrics there is no autoscaler."
    ),
    "PaddleJob spec.elasticPolicy.metrics": "Metrics of an autoscaler. Has no effect.",
    "spec.elasticPolicy.rdzvBackend": "Backend of torchrun's rendezvous: c10d, etcd, etcd-v2 or static. Default: c10d.",
    "spec.elasticPolicy.rdzvPort": "Port of the rendezvous. Default: the port of the workers' Service.",
    "spec.elasticPolicy.rdzvHost": "Host of the rendezvous. Default: worker 0.",
    "spec.elasticPolicy.rdzvId": "Identifier of the rendezvous (PET_RDZV_ID).",
    "spec.elasticPolicy.rdzvConf": "Additional settings of the rendezvous, such as join_timeout (PET_RDZV_CONF).",
    "spec.elasticPolicy.rdzvConf.key": "Name of the setting.",
    "spec.elasticPolicy.rdzvConf.value": "Value of the setting.",
    "spec.elasticPolicy.standalone": "If true, torchrun starts a rendezvous in the same pod, for jobs of one pod.",
    "spec.elasticPolicy.nProcPerNode": (
        "Processes that torchrun starts in each pod. The newer form is spec.nprocPerNode; only one of them may be set."
    ),
    "spec.slotsPerWorker": "Number of ranks that MPI starts in each worker (slots in the hostfile). Default: 1.",
    "spec.cleanPodPolicy": "Older form of spec.runPolicy.cleanPodPolicy, which counts if both are set.",
    "spec.mainContainer": "Name of the container in which ranks run. Default: the first one.",
    "spec.runLauncherAsWorker": "If true, the launcher is a host of ranks itself, the first in the hostfile.",
    "spec.sshAuthMountPath": (
        "Directory in which the first container of each pod finds the ssh keys. Default: /root/.ssh."
    ),
    "spec.launcherCreationPolicy": (
        "When the launcher is created. WaitForWorkersReady: when all workers are ready. AtStartup: together with them,"
        " with an init container that waits for them. Default: AtStartup."
    ),
    "spec.mpiImplementation": (
        "The implementation of MPI, which decides the format of the hostfile and the variables of the launcher."
        " Default: OpenMPI."
    ),
    # The status.
    "status": "What the operator has observed and done. Only the operator writes it.",
    "status.conditions": "What is true of the job, in the order of the last changes.",
    "status.conditions.type": "Created, Running, Restarting, Suspended, Succeeded or Failed.",
    "status.conditions.status": "True or False.",
    "status.conditions.reason": "The reason for the last change, in one word.",
    "status.conditions.message": "The reason in one or more sentences.",
    "status.conditions.lastUpdateTime": "When any part of the condition last changed.",
    "status.conditions.lastTransitionTime": "When the condition last became True or False.",
    "status.blocked": "Why pods cannot be created, do not run or do not terminate; missing otherwise.",
    "status.stalled": "Why the training is taken to hang (trainshed.dev/hang-deadline); missing otherwise.",
    "status.ending": "How a job of a queue will end once its pods hold no resources; missing otherwise.",
    "status.ending.type": "SuccessCriteriaMet or FailureTarget.",
    **{
        f"status.{part}.{field}": text
        for part in ("blocked", "stalled", "ending")
        for field, text in {
            "reason": "The reason, in one word.",
            "message": "The reason in one or more sentences.",
            "lastUpdateTime": "When any part of this field last changed.",
            "lastTransitionTime": "Since when.",
        }.items()
    },
    "status.replicaStatuses": "The number of pods of each replica type, and how to select them.",
    "status.replicaStatuses.active": (
        "Number of pods that run; in a suspended job and in a job of a queue, number of pods that hold resources."
    ),
    "status.replicaStatuses.notRunning": (
        "Number of active pods whose replica does not run: it has not started yet, or it has ended."
    ),
    "status.replicaStatuses.succeeded": "Number of replicas that have succeeded.",
    "status.replicaStatuses.failed": "Number of pods that have failed and are still there.",
    "status.replicaStatuses.ready": "Number of pods that are ready.",
    "status.replicaStatuses.selector": "Label selector of the pods of this type, for the scale subresource.",
    "status.replicaStatuses.completedIndexes": "Indexes of the replicas that have succeeded, such as 0-3,7.",
    "status.replicaStatuses.labelSelector": "Label selector of training-operator v1. The operator does not write it.",
    "status.startTime": "When the operator first saw the job, or when it was last resumed.",
    "status.completionTime": "When the job succeeded or failed.",
    "status.lastReconcileTime": "When the job began to wait for its PodGroup; missing if it does not wait.",
    "status.attempts": (
        "The current attempt of each replica type, counted from 0. Its pods carry the number in the annotation"
        " trainshed.dev/restart-attempt."
    ),
    "status.scaledDownTo": "Number of replicas that a type was scaled down to, until the surplus pods are gone.",
    "status.restarts": "Number of restarts that have counted against backoffLimit.",
    "status.totalRestarts": "Number of restarts of replicas, and of containers by the kubelet.",
    "status.state": (
        "The first of Failed, Succeeded, Suspended, Blocked (blocked is set), Restarting, Running, Created that holds."
    ),
    "status.reason": "The reason of the condition that state names, or of blocked.",
    "status.limitExceeded": "The limit that failed the job: activeDeadlineSeconds, backoffLimit or an annotation.",
    "status.waiting": "Replicas that do not run, or some of whose containers do not, by cause; at most five causes.",
    "status.waiting.replicaType": "The replica type.",
    "status.waiting.indexes": "The indexes of the replicas, such as 0-3,7; the last ones may be missing.",
    "status.waiting.count": "Number of replicas.",
    "status.waiting.node": "The node; missing if the pods are on several nodes or on none.",
    "status.waiting.container": "The container that waits; missing if the whole pod waits.",
    "status.waiting.reason": "The reason that Kubernetes reports, such as ImagePullBackOff, or NotCreated.",
    "status.waiting.message": "The message about the pod with the lowest index.",
    "status.waiting.since": "The earliest time since which one of these pods waits.",
    "status.ready": "Number of ready pods and of wanted pods, such as 3/4.",
    "status.retry": "The state of the back-off.",
    "status.retry.consecutiveFailures": "Number of failures since the job last ran for 10 minutes.",
    "status.retry.containerRestarts": "Container restarts by the kubelet in pods that still exist.",
    "status.retry.deletedPodContainerRestarts": "Container restarts by the kubelet in pods that are gone.",
    "status.retry.nextRetryTime": "No pod is created before this time.",
    "status.podsPendingReplacement": "The uids of pods that have failed and will be replaced.",
    "status.failure": "The root cause of the latest failure: the replica that failed first, and why.",
    "status.failure.replica": "The replica, such as worker-1; missing if no replica alone has failed.",
    "status.failure.pod": "The pod; missing in the same cases.",
    "status.failure.container": "The container, if it is not the framework's.",
    "status.failure.node": "The node.",
    "status.failure.class": (
        "Application, Infrastructure, Disruption, Cascading or Hang: whether the failure counts, and whether it is"
        " retried."
    ),
    "status.failure.reason": "The reason that Kubernetes reports, such as OOMKilled, or one of the operator's.",
    "status.failure.message": "The failure in one sentence.",
    "status.failure.terminationMessage": "The end of the container's log, or the message of the kubelet; at most 1 KB.",
    "status.failure.exitCode": "The exit code; 128 and above is 128 plus the number of a signal.",
    "status.failure.runDurationSeconds": "Seconds that the container had run; missing if it never started.",
    "status.failure.time": "When it failed.",
    "status.progress": "How far the training has come, as tables show it.",
    "status.trainerStatus": (
        "The last report of the training; missing without one. Written at most every 15 s, each minute while tables"
        " would show the same, and when the job ends."
    ),
    "status.trainerStatus.progressPercentage": "How much is done, from 0 to 100.",
    "status.trainerStatus.estimatedRemainingSeconds": "Seconds until the end of the training, as estimated.",
    "status.trainerStatus.step": "The number of steps that are done.",
    "status.trainerStatus.totalSteps": "The number of steps of the whole training.",
    "status.trainerStatus.epoch": (
        "The epoch, as the training numbers it, or how many are done, with a part of the current one."
    ),
    "status.trainerStatus.stepsPerSecond": "The speed over the last reports.",
    "status.trainerStatus.lastUpdatedTime": "When the operator got the report.",
    "status.trainerStatus.metrics": "The last values of the metrics that the training reports; at most 32.",
    "status.trainerStatus.metrics.name": "The name, such as loss.",
    "status.trainerStatus.metrics.value": "The value, as the training has written it.",
    "status.timeSpent": "Where the time of the job has gone: seconds in each phase, without the present one.",
    "status.timeSpent.queuedSeconds": "Seconds in a queue before the first start.",
    "status.timeSpent.suspendedSeconds": "Seconds that it was suspended without pods.",
    "status.timeSpent.schedulingSeconds": "Seconds until all pods had a node.",
    "status.timeSpent.initSeconds": "Seconds until all init containers had ended.",
    "status.timeSpent.imagePullSeconds": "Seconds until all images were pulled and all containers ran.",
    "status.timeSpent.programStartupSeconds": (
        "Seconds in which all replicas ran and did not train yet: some were not ready, or there was no first step."
    ),
    "status.timeSpent.runningSeconds": "Seconds in which all replicas ran that had not succeeded; not while Stalled.",
    "status.timeSpent.stalledSeconds": "Seconds without progress of a job that was Stalled (docs/hangs.md).",
    "status.timeSpent.restartSeconds": "Seconds from failures and disruptions until all replicas ran again.",
    "status.timeSpent.teardownSeconds": "Seconds in which the last pods ended.",
    "status.timeSpent.lostWorkSeconds": "Seconds of training that were done again, as far as steps are known.",
    "status.timeSpent.availabilityPercentage": (
        "Share of ProgramStartup, Running and Stalled in these seconds, without those before admission or past the end."
    ),
    "status.timeSpent.goodputPercentage": (
        "Share of Running without lost work in the same seconds; missing if the training has reported no step."
    ),
    "status.timeSpent.phase": "The present phase, such as Running; missing after the end.",
    "status.timeSpent.since": "When the present phase began, or when the job had ended.",
    "status.stragglers": (
        "Ranks that lag behind the others, or are behind while the job is Stalled, three at most (docs/hangs.md)."
    ),
    "status.kueueWorkload": "Name of the Workload with which Kueue admits the pods of the job as a group"
    " (docs/kueue.md#pods-as-a-group).",
    "status.stragglers.rank": "The rank.",
    "status.stragglers.pod": "Its pod; missing if that is not known.",
    "status.stragglers.node": "The node of the pod; missing if that is not known.",
    "status.notified": "What the webhook of trainshed.dev/notify was sent last (docs/report.md#messages).",
    "status.notified.state": "The state that was sent.",
    "status.notified.since": "Since when the job was in that state.",
    "status.notified.id": "The id of the message.",
    "status.notified.restartTime": "When a restart was sent last.",
    "status.recentRestarts": "The last ten restarts, the newest last.",
    "status.recentRestarts.replica": "The replica that failed first; missing if it is not known which one hangs.",
    "status.recentRestarts.node": "The node of that replica.",
    "status.recentRestarts.class": "The class of the failure.",
    "status.recentRestarts.reason": "The reason of the failure.",
    "status.recentRestarts.exitCode": "The exit code.",
    "status.recentRestarts.attempt": "1 plus the number of restarts so far that count against backoffLimit.",
    "status.recentRestarts.replicasRestarted": "Number of replicas that were restarted.",
    "status.recentRestarts.recoverySeconds": "Seconds from the failure until the job ran again; missing until then.",
    "status.recentRestarts.totalRunningSeconds": (
        "Seconds that all replicas had run until the failure, in all attempts. The seconds of the attempt that ended"
        " are the difference to those of the restart before."
    ),
    "status.recentRestarts.lostWorkSeconds": "Seconds of training that were done again after it, if steps are known.",
    "status.recentRestarts.time": "When the failure was.",
}


def of_kind(framework: Framework) -> str:
    """Return the description of a kind."""
    return KINDS[framework.kind]


def of_field(framework: Framework, path: str) -> str:
    """Return the description of a field of a kind by its path, such as `spec.runPolicy`; KeyError if it has none."""
    general = path.replace(f"spec.{framework.field}", "spec.replicaSpecs", 1)
    names = (f"{framework.kind}/{framework.version} {general}", f"{framework.kind} {general}", general)
    found = next((FIELDS[name] for name in names if name in FIELDS), None)
    if found is None:
        raise KeyError(f"{framework.kind} {path}: add a description to {__name__}.FIELDS")
    container = framework.container
    return found.format(
        roles=", ".join(framework.roles),
        restart_policy=framework.defaults.restart_policy,
        container=f"One container has the name {container.name}." if container.by_name else "",
    ).strip()

"""Jobs in each state that docs/failures.md names, as `trainshed explain` tells them; the planner makes each status."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial as of

from support.builders import FRAMEWORKS, T0, a_job, a_pod, at, plan_for, pods_of, run_policy, running, seen
from support.queue_stories import GANG, POLICY, QUEUES, RUNTIME, WEBHOOK, in_queue
from support.replace import replace
from trainshed.api.actions import LostPod, Snapshot
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Job
from trainshed.api.objects import VOLCANO_GROUPS, Container, Dependent, Pod, TerminatedState
from trainshed.api.trainer_status import TrainerStatus
from trainshed.fit.packing import RoomOfNode
from trainshed.plan import plan
from trainshed.plan.facts import Facts
from trainshed.views import story
from trainshed.views.kueue_queue import Queue
from trainshed.views.story import Beside, Story

IMAGE, NODES = "registry.example/train:1", ("node-a", "node-b")
LIMITS = {"nvidia.com/gpu": 8, "memory": "2Gi"}
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\nValueError: bad batch'
ENDED = {"waiting": False, "reason": "Error", "before": None, "exit_code": 1, "message": TRACEBACK}
GPUS = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
PULL = f'Back-off pulling image "{IMAGE}": ErrImagePull: failed to resolve reference "{IMAGE}": not found'
#: Seconds from the start of a run until a replica fails.
FAILED = 3600
Moment = tuple[float, list[Pod], dict]


def a_training(kind: str = "PyTorchJob", limits: dict = LIMITS, **fields) -> Job:
    """A job of one master and three workers, if nothing else is said; `own` are fields of its container."""
    name = FRAMEWORKS[kind].container.name
    spec = {"containers": [{"name": name, "image": IMAGE, "resources": {"limits": limits}} | fields.pop("own", {})]}
    spec |= {"nodeSelector": fields.pop("selector")} if "selector" in fields else {}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    replicas = {"launcher": 1, "worker": 2} if kind == "MPIJob" else {"master": 1, "worker": 3}
    return a_job(kind, **{**replicas, "template": {"spec": spec | {"volumes": volumes}}, "created": T0} | fields)


def ready(job: Job, *others: Pod, attempt: int = 0, since: float = 0) -> list[Pod]:
    """A pod for each replica; those that are not given are ready, on two nodes."""
    known = {"ready": True, "created": at(since), "attempt": attempt}
    pods = pods_of(job, *others, attempt=attempt)
    return [
        pod
        if pod in others
        else replace(
            pod,
            **known,
            node=NODES[pod.index > 0],
            containers=tuple(replace(one, started=at(since)) for one in pod.containers),
        )
        for pod in pods
    ]


def story_after(job: Job, *moments: Moment, until: float = 10, start: bool = False, probe: str = "", **more) -> Story:
    """The story some seconds after the last of these moments, at each of which the operator saw these pods."""
    queue: Queue | None = more.pop("queue", None)
    status = running(replace(job, problems=())) if start else plan_for(job).status
    for second, pods, seen_as in moments:
        status = plan_for(job, *pods, status=status, now=at(second), **seen_as).status
    second, pods, _ = moments[-1] if moments else (1, [], {})
    labels = {"kueue.x-k8s.io/queue-name": "gpus"} if job.queued else {}
    facts = Facts(seen(job, *pods, status=status, now=at(second + until)))
    beside = Beside(queue, probe, more.pop("nodes", ()), more.pop("unsaved", ""))
    return story.tell(facts, {"metadata": {"labels": labels}, "spec": {"runPolicy": more}}, beside)


def waits(*containers: dict, second: float = 150, until: float = 10, job: Job | None = None, **fields) -> Story:
    """One pod does not run for some time, all others do."""
    job = job or a_training()
    found = tuple(Container(**{"name": "pytorch", "image": IMAGE} | change) for change in containers)
    known = {"phase": "Pending", "node": "node-b", "created": T0, "scheduled": at(1), "containers": found} | fields
    pods = ready(job, a_pod("worker-1", **known))
    return story_after(job, (min(40, second), pods, {}), (second, pods, {}), until=until)


def held(reason: str, message: str = "", **fields) -> Story:
    """The container of one pod waits for this reason."""
    return waits({"waiting": True, "reason": reason, "message": message}, **fields)


def unplaced(
    reason: str = "Unschedulable",
    message: str = "",
    second: float = 600,
    nodes: Iterable[RoomOfNode] = (),
    job: Job | None = None,
) -> Story:
    """No pod has a node."""
    job = job or a_training()
    known = {"containers": (), "created": T0, "unplaced": reason, "unschedulable": message}
    pods = [a_pod(str(replica), "Pending", **known) for replica in job.all_replicas]
    return story_after(job, (40, pods, {}), (second, pods, {}), nodes=tuple(nodes))


def refused(reason: str, message: str, *there: str) -> Story:
    """The API server refuses a pod; some others are there."""
    job = a_training()
    pods = [pod for pod in ready(job) if pod.name in there]
    return story_after(job, *((second, pods, {"refusal": (reason, message)}) for second in (1, 60)))


def quota(name: str, *there: str, most: int = 32) -> Story:
    used = "requested: requests.{0}=8, used: requests.{0}={1}, limited: requests.{0}={1}".format("nvidia.com/gpu", most)
    return refused("QuotaExceeded", f'pods "{name}" is forbidden: exceeded quota: gpus, {used}', *there)


def loops(limit: int | None = 6, main: dict | None = None, **own) -> Story:
    """A container ends again and again."""
    before = TerminatedState(1, at(50), at(52), "Error", TRACEBACK)
    looping = {"waiting": True, "reason": "CrashLoopBackOff", "restarts": 3, "before": before, **own}
    job = a_training(restart="OnFailure", policy=run_policy(backoff_limit=limit))
    return waits(looping, *([main] if main else []), phase="Running", job=job, second=100)


def fails(restart: str = "OnFailure", *others: str, job: Job | None = None, replica: str = "worker-1", **end) -> Story:
    """A replica fails an hour after its start, others a second later."""
    own = {"livenessProbe": {"periodSeconds": 5, "failureThreshold": 1}} if (probe := end.pop("probe", "")) else {}
    job = job or a_training(restart=restart, policy=run_policy(backoff_limit=3), own=own)
    known = {"container": FRAMEWORKS[job.kind].container.name, "created": T0, "phase": "Failed"}
    pods = [a_pod(replica, **{**known, "node": "node-b", "ended": FAILED} | end)]
    pods += [a_pod(name, **known, node="node-a", ended=FAILED + 1, code=1, why="Error") for name in others]
    if end.get("deleting"):
        pods = [replace(pods[0], deletion_timestamp=at(FAILED + 30), grace=30)]
    return story_after(job, (FAILED + 10, ready(job, *pods), {}), start=True, probe=probe)


def disrupted(cause: str, **fields) -> Story:
    """A pod of a worker is taken away."""
    known = {"disruption": cause, "disrupted": at(FAILED), "deleting": True, "phase": "Running"}
    return fails("Never", **known | fields)


def left_early() -> Story:
    job = a_training("MPIJob", restart="OnFailure", policy=run_policy(backoff_limit=3))
    worker = a_pod("worker-1", "Succeeded", container="mpi", node="node-b", created=T0, code=0, ended=FAILED)
    launcher = a_pod("launcher", "Succeeded", container="mpi", node="node-a", created=T0, code=0, ended=FAILED + 5)
    return story_after(job, (FAILED + 10, ready(job, worker, launcher), {}), start=True)


def again(attempts: int, limit: int = 10, *, last: int = 4, until: float = 10, run: float = 600, **end) -> Story:
    """A worker fails again and again; `last` is how much of it has happened. It `trains` 180 steps each time again."""
    job, trains = a_training(restart="OnFailure", policy=run_policy(backoff_limit=limit)), end.pop("trains", False)
    moments: list[Moment] = []
    for attempt in range(attempts):
        begin, first = attempt * (run + 100), int(attempt * (run - 200))
        report = TrainerStatus(at(begin + 20), None, None, (), first, 5000, None, 1.0, first, at(begin + 20))
        later = replace(report, updated=at(begin + run), step=int(first + run - 20))
        said, then = ({"training": one} if trains else {} for one in (report, later))
        known = {"container": "pytorch", "node": "node-b", "created": at(begin), "attempt": attempt}
        pod = a_pod("worker-1", "Failed", **known, started=begin, ended=begin + run, **end)
        moments += [(begin + 30, ready(job, attempt=attempt, since=begin), said)]
        moments += [(begin + run + 5, ready(job, pod, attempt=attempt, since=begin), then), (begin + run + 20, [], {})]
        moments += [(begin + run + 130, ready(job, attempt=attempt + 1, since=begin + run + 100), {})]
    return story_after(job, *moments[: len(moments) - 4 + last], start=True, until=until)


def ended(until: float = 10, queue: Queue | None = None, **policy) -> Story:
    """The master has succeeded."""
    job = a_training(policy=run_policy(**policy), queued=bool(queue))
    master = a_pod("master-0", "Succeeded", container="pytorch", code=0, ended=7000.0, node="node-a")
    return story_after(job, (7001, ready(job, master), {}), start=True, until=until, queue=queue)


def stuck(after: int | None = None, **fields) -> Story:
    """A pod was deleted and does not go."""
    job = a_training(restart="OnFailure", force_delete_after=after)
    gone = {"deleting": True, "deletion_timestamp": at(130), "grace": 30, "node": "node-b", "container": "pytorch"}
    pod = a_pod("worker-1", "Running", created=T0, **gone, **fields)
    return story_after(job, (101, ready(job, pod), {}), (165, [pod], {}), (400, [pod], {}), start=True)


def gang(phase: str, reason: str, message: str) -> Story:
    """Volcano has not admitted the PodGroup."""
    job = a_training()
    said = [{"type": "Unschedulable", "status": "True", "reason": reason, "message": message}]
    document = {"status": {"phase": phase, "conditions": said}}
    group = Dependent(VOLCANO_GROUPS, job.name, "g", "1", job.uid, "ml", job.name, document)
    snapshot = replace(seen(job, job_defaults=JobDefaults(gang_scheduler="volcano")), dependents=(group,))
    return planned(snapshot)


def planned(snapshot: Snapshot, until: float = 300) -> Story:
    """The story after a snapshot that `story_after` cannot make."""
    status = plan(replace(snapshot, status=plan_for(snapshot.job).status, now=at(5))).status
    return story.tell(Facts(seen(snapshot.job, *snapshot.pods, status=status, now=at(until))), {"metadata": {}})


def lost_pods() -> Story:
    job = a_training()
    pods = [pod for pod in ready(job) if pod.name != "mnist-worker-1"]
    gone = (LostPod("mnist-worker-1", 8, at(4)),)
    return planned(replace(seen(job, *pods), lost_pods=gone), until=6)


def starts_later() -> Story:
    job = a_training("XGBoostJob")
    own = Container("xgboost", waiting=True, reason="ContainerCreating", image=IMAGE)
    pods = [a_pod("master-0", "Pending", node="node-a", created=T0, scheduled=at(1), containers=(own,))]
    return story_after(job, (5, pods, {}), (20, pods, {}))


def suspended(queue: Queue | None = None, *, queued: bool = True, until: float = 300) -> Story:
    return story_after(
        a_training(policy=run_policy(suspend=True), queued=queued), (10, [], {}), queue=queue, until=until
    )


def suspends() -> Story:
    job, status = a_training(policy=run_policy(suspend=True)), running(a_training())
    pods = [replace(pod, deleting=True, deletion_timestamp=at(730), grace=30) for pod in ready(job)]
    status = plan_for(job, *pods, status=status, now=at(700)).status
    return story.tell(Facts(seen(job, *pods, status=status, now=at(703))), {"metadata": {}})


def resumed() -> Story:
    job = a_training()
    status = plan_for(replace(job, policy=run_policy(suspend=True)), status=running(job), now=at(700)).status
    status = plan_for(job, status=status, now=at(710)).status
    return story.tell(Facts(seen(job, status=status, now=at(715))), {"metadata": {}})


def unseen(job: Job, second: float = 600, **spec: object) -> Story:
    """The operator has not seen the job."""
    return story.tell(Facts(seen(job, now=at(second))), {"metadata": {}, "spec": {"runPolicy": spec}})


def overdue(**end) -> Story:
    """The operator has stopped: a worker failed long ago, and the status does not know it."""
    job = a_training(restart="Never")
    worker = a_pod("worker-1", "Failed", container="pytorch", node="node-b", created=T0, ended=FAILED, **end)
    facts = Facts(seen(job, *ready(job, worker), status=running(job), now=at(FAILED + 1200)))
    return story.tell(facts, {"metadata": {}})


def invalid(*, started: bool) -> Story:
    job = a_training(problems=("spec.pytorchReplicaSpecs[Worker].template.spec.containers: Required value",))
    return story_after(job, (100, ready(job) if started else [], {}), start=started)


def deletes() -> Story:
    job = a_training()
    pods = [replace(pod, deleting=True, deletion_timestamp=at(730), grace=30) for pod in ready(job)]
    return story_after(replace(job, deleting=True), (700, pods, {}), start=True)


def runs(**fields) -> Story:
    return story_after(job := a_training(**fields), (7190, ready(job), {}), start=True)


def many_nodes() -> Story:
    job = a_training(worker=999)
    pods = [replace(pod, node=f"node-{pod.index // 8}") for pod in ready(job)]
    return story_after(job, (7190, pods, {}), start=True)


def changed_template() -> Story:
    job = a_training()
    groups = tuple(replace(group, template_hash="new") for group in job.groups)
    pods = [replace(pod, template_hash="old") for pod in ready(job)]
    return story_after(replace(job, groups=groups), (7190, pods, {}), start=True)


RUNS = {"waiting": False, "reason": "", "ready": True}
FAILED_INIT = (
    Container("fetch", init=True, exit_code=3, reason="Error", started=at(5), finished=at(FAILED)),
    Container("pytorch", waiting=True, reason="PodInitializing"),
)
UNMOUNTED = {"waiting": True, "reason": "ContainerCreating"}
INIT = {"name": "prep", "init": True}
STORIES: dict[str, Callable[[], Story]] = {
    # Pods that are not created.
    "quota": of(quota, "mnist-master-0"),
    "quota-too-small": of(quota, "mnist-worker-1", "mnist-master-0", "mnist-worker-0", most=16),
    "quota-demands-figures": of(
        *(refused, "Forbidden"),
        'pods "mnist-master-0" is forbidden: failed quota: memory: must specify requests.memory for: pytorch',
    ),
    "webhook": of(refused, "DeniedByWebhook", WEBHOOK),
    "policy": of(refused, "DeniedByPolicy", POLICY),
    "webhook-down": of(refused, "WebhookUnavailable", 'failed calling webhook "policy.example": connection refused'),
    "service-account": of(
        *(refused, "Forbidden"),
        'pods "mnist-master-0" is forbidden: error looking up service account ml/trainer: serviceaccount "trainer" not'
        " found",
    ),
    "invalid-pod": of(refused, "Invalid", 'Pod "mnist-master-0" is invalid: volumeMounts[0].name: Not found: "data"'),
    "namespace-terminating": of(
        refused, "NamespaceTerminating", "unable to create new content in namespace ml because it is being terminated"
    ),
    "name-taken": of(
        *(refused, "NameConflict"),
        "Pod mnist-master-0 already exists and is not controlled by this job: delete the Pod, or rename this job",
    ),
    "gang": of(gang, "Pending", "NotEnoughResources", "4/4 tasks in gang unschedulable: 4 Insufficient nvidia.com/gpu"),
    "start-order": starts_later,
    "deleted-by-others": lost_pods,
    # Pods that do not run.
    "image": of(held, "ImagePullBackOff", PULL),
    "image-unreached": of(held, "ImagePullBackOff", PULL.replace("not found", "dial tcp [::1]:5000: i/o timeout")),
    "image-never-pulled": of(held, "ErrImageNeverPull", "Container image is not present with pull policy of Never"),
    "image-name": of(held, "InvalidImageName", "Failed to apply default image tag: invalid reference format"),
    "configuration": of(held, "CreateContainerConfigError", 'secret "wandb" not found'),
    "container-creation": of(held, "CreateContainerError", "context deadline exceeded"),
    "command": of(held, "RunContainerError", RUNTIME),
    "volume-in-the-first-seconds": of(waits, UNMOUNTED, sandbox_ready=False, second=1, until=2),
    "volume": of(waits, UNMOUNTED, sandbox_ready=False),
    "slow-image": of(waits, UNMOUNTED, second=400),
    "init-container-runs": of(waits, INIT | {"started": at(10)}, {"waiting": True}, second=400),
    "init-container-fails": of(loops, main={"waiting": True}, **INIT),
    "sidecar-fails": of(loops, main={"started": at(5), "ready": True}, name="proxy"),
    "crash-loop": loops,
    "init-container-failed": of(fails, "Never", ended=None, phase="Failed", containers=FAILED_INIT),
    "crash-loop-runs": of(loops, **dict(RUNS, started=at(99))),
    "crash-loop-begins": of(loops, restarts=0, **dict(ENDED, finished=at(52))),
    "crash-loop-without-end": of(loops, None),
    "unschedulable": of(unplaced, message=GPUS),
    "gang-without-room": of(unplaced, message=GANG),
    "gang-queue-is-full": of(unplaced, message="OverLimit: small quota has reached the allowable limit of CPU cores."),
    "scheduling-gate": of(unplaced, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"),
    "missing-claim": of(unplaced, message='0/4 nodes are available: persistentvolumeclaim "data" not found.'),
    "no-scheduler": of(unplaced, ""),
    "startup-deadline-ahead": of(held, "ImagePullBackOff", PULL, job=a_training(startup_deadline=600)),
    "startup-deadline": of(held, "ImagePullBackOff", PULL, job=a_training(startup_deadline=120)),
    "stuck-terminating": stuck,
    "stuck-by-finalizer": of(stuck, finalizers=("example.com/audit",)),
    "stuck-until-forced": of(stuck, 600),
    # Failures by the program.
    "traceback": of(fails, "Never", code=1, why="Error", words=TRACEBACK),
    "traceback-retried": of(fails, "OnFailure", "worker-0", "worker-2", code=1, why="Error", words=TRACEBACK),
    "traceback-exit-code": of(fails, "ExitCode", code=1, why="Error", words=TRACEBACK),
    "command-not-found": of(fails, "Never", code=127, why="Error", ended=2, words="sh: 1: trains.py: not found"),
    "start-error": of(fails, "Never", code=128, why="StartError", ended=2, words=RUNTIME),
    "oom": of(fails, code=137, why="OOMKilled"),
    "oom-without-limit": of(fails, code=137, why="OOMKilled", job=a_training(limits={}, restart="OnFailure")),
    "killed": of(fails, code=137, why="Error"),
    "probe": of(fails, code=137, why="Error", probe="Liveness probe failed: HTTP probe failed with statuscode: 503"),
    "terminated": of(fails, code=143, why="Error"),
    "segmentation-fault": of(fails, code=139, why="Error"),
    "abort": of(fails, code=134, why="Error", words="terminate called after throwing an instance of 'c10::Error'"),
    "pod-deadline": of(fails, code=137, why="Error", reason="DeadlineExceeded", message="Pod was active too long"),
    "too-much-disk": of(fails, reason="Evicted", message="Pod ephemeral local storage usage exceeds the total limit"),
    "left-early": left_early,
    # Failures by the cluster.
    "evicted": of(fails, reason="Evicted", message="The node was low on resource: memory."),
    "drained": of(disrupted, "EvictionByEvictionAPI"),
    "preempted": of(disrupted, "PreemptionByScheduler"),
    "tainted": of(disrupted, "DeletionByTaintManager"),
    "node-lost": of(disrupted, "DeletionByPodGC"),
    "node-shut-down": of(disrupted, "TerminationByKubelet", phase="Failed", reason="Terminated", code=143, why="Error"),
    "deleted": of(fails, "Never", phase="Running", deleting=True),
    "disruption-is-final": of(
        fails, phase="Running", deleting=True, job=a_training(fail_on_disruption=True, restart="OnFailure")
    ),
    "not-admitted": of(fails, containers=(), reason="OutOfnvidia.com/gpu", message="Node didn't have enough resource"),
    "state-lost": of(fails, code=137, why="ContainerStatusUnknown"),
    "exit-code-unknown": of(fails, containers=()),
    # Restarts.
    "back-off": of(again, 6, last=2, until=1, run=30, code=137, why="OOMKilled"),
    "runs-again": of(again, 1, code=1, why="Error", words=TRACEBACK),
    "runs-again-and-again": of(again, 7, code=137, why="OOMKilled"),
    "killed-twice": of(again, 3, last=1, trains=True, until=300, code=137, why="Error"),
    "backoff-limit": of(again, 3, 2, last=2, code=1, why="Error", words=TRACEBACK),
    # Limits, ends and pauses.
    "deadline": lambda: story_after(
        job := a_training(policy=run_policy(deadline=3600)), (3601, ready(job), {}), start=True, until=9
    ),
    "deadline-ahead": of(runs, policy=run_policy(deadline=9000)),
    "time-to-live": of(ended, 600, ttl=3600, clean="All"),
    "succeeded": of(ended, clean="Running"),
    "ends-in-queue": of(ended, queue=in_queue(("Admitted", "True", "", "")), clean="Running"),
    "suspended": of(suspended, queued=False),
    "suspends": suspends,
    "resumed": resumed,
    "invalid": of(invalid, started=False),
    "invalid-after-start": of(invalid, started=True),
    "is-deleted": deletes,
    # Kueue.
    **{name: of(suspended, queue) for name, queue in QUEUES.items()},
    "queue-admitted": lambda: story_after(
        job := a_training(queued=True), (7190, ready(job), {}), start=True, queue=in_queue(("Admitted", "True", "", ""))
    ),
    # All is well, or the operator is not.
    "begins": lambda: story_after(a_training(), (1, [], {}), until=1),
    "runs": runs,
    "runs-on-many-nodes": many_nodes,
    "changed-template": changed_template,
    "not-seen": of(unseen, a_training()),
    "not-seen-yet": of(unseen, a_training(), second=3),
    "operator-stopped": of(overdue, code=1, why="Error", words=TRACEBACK),
    "managed-elsewhere": of(
        unseen, a_training(policy=run_policy(managed_elsewhere=True)), managedBy="kueue.x-k8s.io/multikueue"
    ),
}

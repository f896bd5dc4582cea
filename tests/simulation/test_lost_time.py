"""Where the time of a job has gone is what its pods show, whatever crashes, as an oracle that sees each change says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random

import pytest

from simulation.cluster import Cluster, jobs
from simulation.nodes import PunctualKubelet
from simulation.server_events import observe_changes
from simulation.test_jobs import a_job, states
from support.audit import api_fields
from support.audit.change import CREATED, DELETED, KUBELET, Change
from support.pod_statuses import ended, running
from trainshed.api.job import JobKey
from trainshed.api.training import trainer_status

KIND, REPLICAS = "PyTorchJob", ("master-0", "worker-0", "worker-1")
#: Seconds from the creation of a pod until it has a node, until its container runs, and until it is ready by its probe.
BIND, START, READY = (1.0, 20.0), (1.0, 40.0), (1.0, 30.0)
#: What happens in a schedule, and how long after what happened before; a slow operator sees things later.
EVENTS, LATER = ("crash", "crash", "delete", "operator", "suspend"), (1.0, 200.0)
#: Seconds after which a training without a new step hangs, and for which its steps must have been heard by then.
DEADLINE, HEARD = 30, 20


class SlowKubelet(PunctualKubelet):
    """Binds and starts each pod after random times; one with `probes` is ready later than it runs."""

    def __init__(self, cluster: Cluster, random: Random, *, probes: bool) -> None:
        super().__init__(cluster, {})
        self._random, self._probes = random, probes

    def _observe(self, change: Change) -> None:
        if change.plural != "pods" or change.verb != CREATED:
            super()._observe(change)
            return
        path, uid = f"/api/v1/namespaces/ml/pods/{change.object['metadata']['name']}", api_fields.uid(change.object)
        bound = self._random.uniform(*BIND)
        self._cluster.later(bound, self._bind, path, uid)
        started = bound + self._random.uniform(*START)
        self._cluster.later(started, self._begin, path, uid)
        if self._probes:
            self._cluster.later(started + self._random.uniform(*READY), self._become_ready, path, uid)

    def _bind(self, path: str, uid: str) -> None:
        if api_fields.uid(self._cluster.server.object(path) or {}) == uid:
            self._ask("POST", f"{path}/binding", {"target": {"name": "node-a"}})

    def _begin(self, path: str, uid: str) -> None:
        pod = self._cluster.server.object(path) or {}
        if api_fields.uid(pod) == uid and "deletionTimestamp" not in pod["metadata"]:
            self._write(path, lambda pod: running(pod, self._cluster.now(), ready=not self._probes))

    def _become_ready(self, path: str, uid: str) -> None:
        pod = self._cluster.server.object(path) or {}
        is_running = pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        if is_running and api_fields.uid(pod) == uid:
            self._ask("PATCH", f"{path}/status", {"status": running(pod, self._cluster.now())})


class Training:
    """Makes a step each second in which all pods run, unless it hangs, and reports it to the operator."""

    def __init__(self, cluster: Cluster) -> None:
        self.hangs, self.steps, self._run, self._step = False, list[int](), "", 0
        self._cluster = cluster
        cluster.later(0.5, self._tick)

    def _tick(self) -> None:
        self._cluster.later(1.0, self._tick)
        pods = [self._cluster.server.object(f"/api/v1/namespaces/ml/pods/job-{name}") or {} for name in REPLICAS]
        trains = [pod.get("status", {}).get("phase") == "Running" and not _is_deleted(pod) for pod in pods]
        operator, job = self._cluster.operators[0], self._cluster.job(KIND, "job")
        if self.hangs or not all(trains) or operator.operator is None or job is None:
            return
        run = " ".join(map(api_fields.uid, pods))
        self._step, self._run = self._step + 1 if run == self._run else 0, run
        self.steps.append(int(self._cluster.now()))
        found = trainer_status(datetime.fromtimestamp(self._cluster.now(), UTC), step=self._step)
        key, reports = JobKey("ml", KIND, "job"), operator.operator._caches.all[""].cache.training
        pod = "job-master-0", api_fields.uid(pods[0])
        operator._in_process().run(reports.report, key, api_fields.uid(job), found, pod)

    def kind(self, second: int, begin: int, end: int) -> str:
        """Return what a second of a run was, which lasted from `begin` to `end`."""
        before = [step for step in self.steps if begin <= step <= second]
        after = min((step for step in self.steps if second < step < end), default=end)
        if not before:
            return "program"
        return "stalled" if after - before[-1] >= DEADLINE else "run"


def _is_deleted(pod: dict) -> bool:
    return "deletionTimestamp" in pod["metadata"]


class Seconds:
    """Counts each second of a job by what the changes say: when pods ran and were ready, and when it was suspended."""

    def __init__(self, cluster: Cluster) -> None:
        self.runs: dict[str, tuple[str, float, float | None]] = {}
        self.stops: list[tuple[float, bool]] = []
        self.ready: dict[str, int] = {}
        observe_changes(cluster.server, self._observe)

    def _observe(self, change: Change) -> None:
        if change.plural == "pytorchjobs" and change.after and change.before:
            before, after = (api_fields.condition(job, "Suspended") for job in (change.before, change.after))
            if before != after:
                self.stops.append((int(change.at), after))
        if change.plural != "pods":
            return
        pod, uid = change.object, api_fields.uid(change.object)
        state = (pod["status"].get("containerStatuses") or [{}])[0].get("state", {})
        if uid not in self.runs and (state.get("running") or state.get("terminated")):
            self.runs[uid] = pod["metadata"]["name"].removeprefix("job-"), int(change.at), None
        if api_fields.condition(pod, "Ready"):
            self.ready.setdefault(uid, int(change.at))
        over = change.verb == DELETED or change.requests_deletion or "terminated" in state
        if uid in self.runs and over and self.runs[uid][2] is None:
            self.runs[uid] = (*self.runs[uid][:2], int(change.at))

    def count(self, begin: float, end: float, training: Training | None = None) -> dict[str, int]:
        """Return the seconds of six kinds."""
        found = dict.fromkeys(("start", "program", "run", "stalled", "restart", "suspended"), 0)
        runs = list[list[int]]()
        suspended = broken = False
        for second in range(int(begin), int(end)):
            for time, stops in self.stops:
                if time == second:
                    suspended, broken = stops, False
            there = [(start, over) for _, start, over in self.runs.values()]
            broken |= any(over == second and start < over for start, over in there) and not suspended
            alive = {
                name: self.ready.get(uid, end) <= second
                for uid, (name, start, over) in self.runs.items()
                if start <= second and (over is None or second < over)
            }
            if suspended:
                found["suspended"] += 1
            elif set(alive) == set(REPLICAS):
                broken = False
                found["run" if all(alive.values()) else "program"] += 1
                if runs and runs[-1][1] == second:
                    runs[-1][1] += 1
                else:
                    runs.append([second, second + 1])
            else:
                found["restart" if broken else "start"] += 1
        if training:
            of_runs = Counter(training.kind(second, *run) for run in runs for second in range(*run))
            found |= {kind: of_runs[kind] for kind in ("program", "run", "stalled")}
        return found


def spent(job: dict) -> dict[str, int]:
    """Return the seconds of the same kinds in the status of a job."""
    kinds = {
        "start": ("scheduling", "init", "imagePull"),
        "program": ("programStartup",),
        "run": ("running",),
        "stalled": ("stalled",),
        "restart": ("restart",),
        "suspended": ("suspended", "teardown", "queued"),
    }
    seconds = job["status"]["timeSpent"]
    return {kind: sum(seconds.get(f"{phase}Seconds", 0) for phase in phases) for kind, phases in kinds.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "hangs"), [*((seed, False) for seed in range(6)), *((seed, True) for seed in (1, 2, 4))]
)
def test_the_sums_of_a_random_schedule_are_those_of_an_oracle(seed, hangs):
    random, cluster = Random(seed), Cluster(seed, replicas=1)
    SlowKubelet(cluster, random, probes=seed % 3 == 0)
    training = Training(cluster) if hangs else None
    seconds = Seconds(cluster)
    cluster.operators[0].settings |= {"leader_elect": False}
    cluster.start()
    body = a_job(KIND, {"Master": 1, "Worker": 2})
    for group in body["spec"]["pytorchReplicaSpecs"].values():
        group["restartPolicy"] = "OnFailure" if seed % 2 else "ExitCode"
        if seed % 3 == 0:
            group["template"]["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["true"]}}
    if hangs:
        body["metadata"]["annotations"] = {"trainshed.dev/hang-deadline": f"{DEADLINE}s"}
    cluster.submit(body)
    begin = int(cluster.now())
    try:
        for _ in range(10):
            cluster.loop.run_for(random.uniform(*LATER))
            hang(cluster, random, training)
            act(cluster, random, EVENTS if training is None else [one for one in EVENTS if one != "operator"])
            if training:
                training.hangs = False
        cluster.loop.run_for(400)
        pod = cluster.server.object("/api/v1/namespaces/ml/pods/job-master-0")
        end = {"status": ended(pod, 0, cluster.now())}
        cluster.server.request(KUBELET, "PATCH", "/api/v1/namespaces/ml/pods/job-master-0/status", body=end)
        over = int(cluster.now())
        assert cluster.loop.run_until(lambda: "Succeeded" in states(cluster.job(KIND, "job") or {}), 60)
        job = cluster.job(KIND, "job") or {}
        found, expected = spent(job), seconds.count(begin, over, training)
    finally:
        cluster.close()
    assert found == expected
    assert sum(found.values()) == over - begin
    assert found["run"] > 0 < found["start"]
    for restart in job["status"].get("recentRestarts", ()):
        ran = seconds.count(begin, datetime.fromisoformat(restart["time"]).timestamp(), training)
        assert restart["totalRunningSeconds"] == ran["run"] + ran["program"] + ran["stalled"]
    assert (found["program"] > 0) == (hangs or seed % 3 == 0)
    assert (found["stalled"] > 0) == hangs


def hang(cluster: Cluster, random: Random, training: Training | None) -> None:
    """Let a training that has run for a while stop for some seconds, and go on or hang until what happens next."""
    if training is None:
        return
    training.hangs = len(training.steps) >= HEARD and cluster.now() - training.steps[-HEARD] < HEARD + 2
    cluster.loop.run_for(random.choice((random.uniform(5, 20), random.uniform(45, 100))))
    if random.choice((True, False)):
        training.hangs = False
        cluster.loop.run_for(5)


def act(cluster: Cluster, random: Random, events: Sequence[str]) -> None:
    """Let one of these things happen."""
    what, name = random.choice(events), f"job-{random.choice(REPLICAS)}"
    path = f"/api/v1/namespaces/ml/pods/{name}"
    pod = cluster.server.object(path)
    if what == "operator":
        cluster.operators[0].crash()
        cluster.later(random.uniform(1, 60), cluster.operators[0].start)
    elif what == "suspend":
        suspend = {"spec": {"runPolicy": {"suspend": True}}}
        cluster.server.request("user", "PATCH", f"{jobs(KIND)}/job", body=suspend)
        cluster.loop.run_for(random.uniform(90, 150))
        cluster.server.request("user", "PATCH", f"{jobs(KIND)}/job", body={"spec": {"runPolicy": {"suspend": False}}})
    elif pod and what == "delete":
        cluster.server.request("user", "DELETE", path, body={})
    elif pod and pod["status"].get("phase") == "Running":
        status = {"status": ended(pod, 137, cluster.now())}
        cluster.server.request(KUBELET, "PATCH", f"{path}/status", body=status)

"""A local run and the operator in a cluster give the same conditions in the same order: one table, two runners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from simulation.cluster import EPOCH, NAMESPACE, Cluster, jobs
from simulation.nodes import PunctualKubelet
from simulation.schedule import SCOPE, JobRequest, patch
from simulation.server_events import observe_changes
from support.audit import api_fields
from support.audit.change import CREATED, DELETED
from support.pod_statuses import ended, restarted
from support.scripted_runtime import NoLogs, ScriptedRuntime
from support.virtual_time import VirtualTimeLoop
from trainshed.api.framework import JobDefaults
from trainshed.controller.namespaces import Scope
from trainshed.frameworks import FRAMEWORKS
from trainshed.local import tasks
from trainshed.local.cluster import LocalCluster
from trainshed.local.node.downward import NodeFacts
from trainshed.local.node.environment import EnvironmentResolver, Gpus
from trainshed.local.node.kubelet import Kubelet
from trainshed.local.node.pod_worker import BackOff, KubeletDependencies
from trainshed.local.node.volumes import Volumes
from trainshed.local.run import LocalController
from trainshed.local.stored_objects import POD
from trainshed.memory.versioned_store import merge_patch


@dataclass(frozen=True, slots=True)
class Happening:
    """What happens `at` so many seconds: a pod `exits`, is `deleted`, or the job is `edited`."""

    at: float
    what: str
    pod: str = ""
    value: object = None


def exits(at: float, pod: str, code: int = 0) -> Happening:
    return Happening(at, "exits", pod, code)


def edited(at: float, path: str, value: object) -> Happening:
    return Happening(at, "edited", path, value)


def a(kind: str, restart: str = "Never", /, *, policy: dict | None = None, scope: str = "", spec=(), **roles: int):
    annotations = ((SCOPE, scope),) if scope else ()
    return JobRequest(kind, "job", tuple(roles.items()), restart, tuple((policy or {}).items()), spec, annotations)


RESTARTED = ("Created", "Running", "!Running", "Restarting", "!Restarting", "Running", "!Running", "Succeeded")
ELASTIC = (("elasticPolicy", {"minReplicas": 1, "maxReplicas": 4, "maxRestarts": 3}),)
#: Name: the job, what happens to it, and the conditions in the order in which they change.
SCENARIOS: dict[str, tuple[JobRequest, tuple[Happening, ...], tuple[str, ...]]] = {
    "the chief succeeds": (
        a("TFJob", Chief=1, PS=1, Worker=1, policy={"cleanPodPolicy": "Running"}),
        (exits(10, "chief-0"),),
        ("Created", "Running", "!Running", "Succeeded"),
    ),
    "all pods are deleted at the end": (
        a("PyTorchJob", Master=1, Worker=2, policy={"cleanPodPolicy": "All"}),
        (exits(10, "master-0"),),
        ("Created", "Running", "!Running", "Succeeded"),
    ),
    "worker 0 decides": (
        a("TFJob", Worker=2),
        (exits(10, "worker-0"),),
        ("Created", "Running", "!Running", "Succeeded"),
    ),
    "all workers decide": (
        a("TFJob", Worker=2, spec=(("successPolicy", "AllWorkers"),)),
        (exits(10, "worker-0"), exits(20, "worker-1")),
        ("Created", "Running", "!Running", "Succeeded"),
    ),
    "all JAX processes succeed": (
        a("JAXJob", Worker=2),
        (exits(10, "worker-0"), exits(12, "worker-1")),
        ("Created", "Running", "!Running", "Succeeded"),
    ),
    "a killed worker restarts the job": (
        a("PyTorchJob", "ExitCode", Master=1, Worker=2),
        (exits(10, "worker-1", 137), exits(40, "master-0")),
        RESTARTED,
    ),
    "a killed worker is replaced alone": (
        a("TFJob", "ExitCode", Chief=1, PS=1, Worker=2),
        (exits(10, "worker-1", 137), exits(40, "chief-0")),
        ("Created", "Running", "!Running", "Succeeded"),
    ),
    "the annotation sets the scope": (
        a("TFJob", "ExitCode", Chief=1, PS=1, Worker=2, scope="Job"),
        (exits(10, "worker-1", 137), exits(40, "chief-0")),
        RESTARTED,
    ),
    "an error of the script fails the job": (
        a("PyTorchJob", "ExitCode", Master=1, Worker=2),
        (exits(10, "worker-1", 1),),
        ("Created", "Running", "!Running", "Failed"),
    ),
    "Never means never": (
        a("XGBoostJob", Master=1, Worker=1),
        (exits(10, "master-0", 137),),
        ("Created", "Running", "!Running", "Failed"),
    ),
    "the back-off limit is reached": (
        a("PyTorchJob", "ExitCode", Master=1, Worker=1, policy={"backoffLimit": 1}),
        (exits(10, "worker-0", 137), exits(60, "worker-0", 137)),
        ("Created", "Running", "!Running", "Restarting", "!Restarting", "Running", "!Running", "Failed"),
    ),
    "the second restart waits for its back-off": (
        a("PaddleJob", "ExitCode", Master=1, Worker=1),
        (exits(10, "worker-0", 137), exits(40, "worker-0", 137), exits(120, "master-0")),
        ("Created", "Running", *("!Running", "Restarting", "!Restarting", "Running") * 2, "!Running", "Succeeded"),
    ),
    "the kubelet restarts in place": (
        a("TFJob", "OnFailure", Chief=1, Worker=1),
        (exits(10, "worker-0", 1), exits(60, "chief-0")),
        ("Created", "Running", "!Running", "Succeeded"),
    ),
    "restarts in place are limited": (
        a("PyTorchJob", "OnFailure", Master=1, Worker=1, policy={"backoffLimit": 1}),
        (exits(10, "worker-0", 1),),
        ("Created", "Running", "!Running", "Failed"),
    ),
    "the deadline passes": (
        a("JAXJob", Worker=2, policy={"activeDeadlineSeconds": 30}),
        (),
        ("Created", "Running", "!Running", "Failed"),
    ),
    "suspended and resumed": (
        a("PyTorchJob", Master=1, Worker=1),
        (edited(10, "runPolicy.suspend", True), edited(30, "runPolicy.suspend", False), exits(60, "master-0")),
        ("Created", "Running", "!Running", "Suspended", "!Suspended", "Running", "!Running", "Succeeded"),
    ),
    "created suspended": (
        a("TFJob", Worker=1, policy={"suspend": True}),
        (edited(20, "runPolicy.suspend", False), exits(60, "worker-0")),
        ("Created", "Suspended", "!Suspended", "Running", "!Running", "Succeeded"),
    ),
    "elastic: a killed worker is replaced alone": (
        a("PyTorchJob", "ExitCode", Worker=2, spec=ELASTIC),
        (exits(10, "worker-1", 137), exits(60, "worker-0")),
        ("Created", "Running", "!Running", "Succeeded"),
    ),
    "elastic: workers are added": (
        a("PyTorchJob", "ExitCode", Worker=2, spec=ELASTIC),
        (edited(10, "pytorchReplicaSpecs.Worker.replicas", 3), exits(60, "worker-2")),
        ("Created", "Running", "!Running", "Succeeded"),
    ),
    "a launcher starts after its workers": (
        a("MPIJob", Launcher=1, Worker=2, policy={"cleanPodPolicy": "All"}),
        (exits(10, "launcher"),),
        ("Created", "Running", "!Running", "Succeeded"),
    ),
    "a deleted pod is replaced": (
        a("TFJob", Chief=1, Worker=1, PS=1),
        (Happening(10, "deleted", "worker-0"), exits(60, "chief-0")),
        ("Created", "Running", "!Running", "Succeeded"),
    ),
    "the job expires": (
        a("TFJob", Worker=1, policy={"ttlSecondsAfterFinished": 20}),
        (exits(10, "worker-0"),),
        ("Created", "Running", "!Running", "Succeeded", "deleted"),
    ),
}
#: Seconds after the last happening.
REST = 60.0
#: A kubelet's back-off would be longer than the scenarios.
QUICK = BackOff(first=0.5, longest=1.0)


class Conditions:
    """The changes of the conditions of a job: the type of one that turns true, with ! of one that turns false.

    `created` counts how often each pod was created.
    """

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []
        self.created: Counter[str] = Counter()
        self._known: set[str] = set()

    def observe(self, job: dict | None) -> None:
        """Take in a version of the job; None once it is gone."""
        if job is None:
            self.changes.append(("deleted", ""))
            return
        conditions = api_fields.conditions(job.get("status", {}))
        true = {condition["type"]: condition["reason"] for condition in conditions if condition["status"] == "True"}
        self.changes += [(f"!{kind}", "") for kind in sorted(self._known - true.keys())]
        self.changes += [(kind, reason) for kind, reason in true.items() if kind not in self._known]
        self._known = set(true)


def in_cluster(request: JobRequest, happenings: tuple[Happening, ...], _folder: Path) -> Conditions:
    """Run the operator on the simulated API server."""
    cluster, conditions = Cluster(replicas=1), Conditions()
    server, pods = cluster.server, f"/api/v1/namespaces/{NAMESPACE}/pods/job-"
    path = f"{jobs(request.kind)}/job"
    observe_changes(
        server,
        lambda change: (
            change.plural == f"{request.kind.lower()}s"
            and conditions.observe(None if change.verb == DELETED else change.object)
        ),
    )
    observe_changes(
        server,
        lambda change: (
            change.plural == "pods"
            and change.verb == CREATED
            and conditions.created.update([change.object["metadata"]["name"]])
        ),
    )
    PunctualKubelet(cluster, {})

    def happen(found: Happening) -> None:
        if found.what == "edited":
            server.request("user", "PATCH", path, body=patch(found.pod, found.value))
            return
        pod = server.object(f"{pods}{found.pod}")
        if found.what == "deleted":
            server.request("user", "DELETE", f"{pods}{found.pod}")
            return
        restarts = found.value and request.restart == "OnFailure"
        status = (restarted if restarts else ended)(pod, found.value, cluster.now())
        server.request("kubelet", "PATCH", f"{pods}{found.pod}/status", body={"status": status})

    cluster.operators[0].settings |= {"leader_elect": False}
    cluster.start()
    cluster.submit(request.document())
    _play(cluster.loop, happenings, happen)
    cluster.close()
    return conditions


def on_this_machine(request: JobRequest, happenings: tuple[Happening, ...], folder: Path) -> Conditions:
    """Run the controller and the kubelet of `trainshed run`, with containers that do what the scenario says."""
    loop, conditions = VirtualTimeLoop(), Conditions()

    def now() -> datetime:
        return datetime.fromtimestamp(EPOCH + loop.time(), UTC)

    cluster, runtime = LocalCluster(now, FRAMEWORKS), ScriptedRuntime(immediate=("kubectl-delivery",))

    def observe(kind: str, before: dict | None, after: dict | None) -> None:
        if kind == request.kind:
            conditions.observe(after)
        if kind == POD and before is None:
            conditions.created.update([after["metadata"]["name"]])

    cluster.listeners.append(observe)
    resolver = EnvironmentResolver(cluster.find)
    volumes = Volumes(resolver, folder)
    shared = KubeletDependencies(
        cluster, runtime, NoLogs(), now, folder, volumes, resolver, Gpus(()), NodeFacts("node"), QUICK
    )

    def happen(found: Happening) -> None:
        job = cluster.find(request.kind, NAMESPACE, "job")
        if found.what == "edited":
            cluster.apply(merge_patch(job, patch(found.pod, found.value)))
        elif found.what == "deleted":
            cluster.server.request("user", "DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/job-{found.pod}")
        else:
            container = runtime.running(f"job-{found.pod}")
            assert container, f"{found.pod} does not run"
            container.end(found.value)

    def begin() -> None:
        Kubelet(shared)
        clock, scope = SimpleNamespace(now=now), Scope(FRAMEWORKS, JobDefaults())
        controller = LocalController(cluster.server, scope, clock, None, tasks.LocalObserver())
        tasks.start(controller.start(), "controller")
        cluster.apply(request.document())

    loop.call_soon(begin)
    _play(loop, happenings, happen)
    loop.close()
    assert not loop.errors, loop.errors
    return conditions


def _play(loop: VirtualTimeLoop, happenings: tuple[Happening, ...], happen: Callable[[Happening], None]) -> None:
    done = 0.0
    for found in happenings:
        loop.run_for(found.at - done)
        loop.call_soon(happen, found)
        done = found.at
    loop.run_for(REST)


@pytest.mark.parametrize("runner", [in_cluster, on_this_machine], ids=["cluster", "local"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_conditions_change_in_the_same_order(name, runner, tmp_path):
    request, happenings, expected = SCENARIOS[name]
    conditions = runner(request, happenings, tmp_path)
    assert tuple(kind for kind, _ in conditions.changes) == expected


@pytest.mark.parametrize("name", SCENARIOS)
def test_reasons_and_pods_are_the_same(name, tmp_path):
    request, happenings, _ = SCENARIOS[name]
    local, cluster = (runner(request, happenings, tmp_path) for runner in (on_this_machine, in_cluster))
    assert local.changes == cluster.changes
    assert local.created == cluster.created

"""The real gang schedulers, each with what it needs on a control plane, started beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from testbed.binaries import binary, module_folder
from testbed.control_plane import ControlPlane
from testbed.neighbours import neighbour_binary, source_tree
from testbed.places import written
from testbed.ports import free_port
from testbed.processes import Process
from testbed.releases import minor_version, program

from .kubectl import kubectl_file
from .user_client import UserClient, eventually

#: The API of Kubernetes' own gang scheduling in this run's release, and the feature gates that it needs.
KUBERNETES_API, KUBERNETES_GATES = (
    ("scheduling.k8s.io/v1alpha2", "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true")
    if minor_version() == "1.36"
    else ("scheduling.k8s.io/v1beta1", "GenericWorkload=true")
)
GATE, SERVED = f"--feature-gates={KUBERNETES_GATES}", f"--runtime-config={KUBERNETES_API}=true"
#: As the manifests of scheduler-plugins have it, with a name of its own.
COSCHEDULING = "scheduler-plugins-scheduler"
COSCHEDULING_CONFIG = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {kubeconfig}}}
profiles:
- schedulerName: scheduler-plugins-scheduler
  plugins:
    multiPoint: {{enabled: [{{name: Coscheduling}}]}}
    queueSort: {{enabled: [{{name: Coscheduling}}], disabled: [{{name: "*"}}]}}
  pluginConfig:
  - name: Coscheduling
    args: {{permitWaitingTimeSeconds: 10}}
"""

RBAC = "rbac.authorization.k8s.io"
#: The queues of KAI's chart, each with its parent.
KAI_QUEUES = {"default-parent-queue": "", "default-queue": "default-parent-queue"}


@contextmanager
def kubernetes(plane: ControlPlane, folder: Path) -> Iterator[Process]:
    """kube-scheduler with its own gang scheduling; the control plane was started with the gate."""
    command = [program("kube-scheduler"), f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false"]
    with _running(Process("kube-scheduler", folder), [*command, "--secure-port=0", GATE]) as process:
        yield process


@contextmanager
def volcano(plane: ControlPlane, folder: Path) -> Iterator[Process]:
    """Volcano's scheduler with the configuration of its Helm chart, and its controllers, which open its queues."""
    tree = source_tree("volcano")
    for part in ("volcano", "jobflow"):  # its controllers wait for all kinds
        install(plane, tree / "config" / "crd" / part / "bases")
    config = tree / "installer" / "helm" / "chart" / "volcano" / "config" / "volcano-scheduler.conf"
    flags = (f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false")
    controllers = Process("vc-controller-manager", folder)
    scheduler = Process("vc-scheduler", folder)
    command = [neighbour_binary("volcano", "vc-scheduler"), *flags, f"--scheduler-conf={config}"]
    with (
        _running(controllers, [neighbour_binary("volcano", "vc-controller-manager"), *flags]),
        _running(scheduler, [*command, f"--cache-dump-dir={folder}"]) as process,
    ):
        yield process


@contextmanager
def coscheduling(plane: ControlPlane, folder: Path) -> Iterator[Process]:
    """The scheduler of scheduler-plugins, with the coscheduling plugin alone."""
    crds = module_folder("scheduler-plugins") / "config" / "crd" / "bases"
    install(plane, crds / "scheduling.x-k8s.io_podgroups.yaml")
    folder.mkdir(parents=True, exist_ok=True)
    config = written(folder / "config.yaml", COSCHEDULING_CONFIG.format(kubeconfig=plane.kubeconfig))
    command = [binary("scheduler-plugins", "scheduler"), f"--config={config}", "--secure-port=0"]
    command.append("--pod-max-in-unschedulable-pods-duration=10s")  # else it tries a refused gang again after 5 min
    with _running(Process("scheduler", folder), command) as process:
        yield process


@contextmanager
def kai(plane: ControlPlane, folder: Path) -> Iterator[Process]:
    """KAI's pod-grouper, scheduler and binder, each with the rights of KAI's chart, and the chart's default queue.

    The queue has a quota of all CPUs: without one, no job of a priority of 100 or more is placed.
    """
    chart = source_tree("kai") / "deployments" / "kai-scheduler"
    install(plane, chart / "crds")
    kubectl_file(plane, "create", chart / "templates" / "priorityclasses")
    admin = UserClient(plane.kubeconfig, "default")
    for queue, parent in KAI_QUEUES.items():
        admin.call("POST", "/apis/scheduling.run.ai/v2/queues", kai_queue(queue, parent))
    with ExitStack() as stack:
        for name in ("binder", "podgrouper", "scheduler"):
            kubectl_file(plane, "create", chart / "templates" / "rbac" / f"{name}.yaml")
            account = f"system:serviceaccount:kai-scheduler:{name}"
            subject = {"kind": "User", "name": account, "apiGroup": RBAC}
            role = {"kind": "ClusterRole", "name": f"kai-{name}", "apiGroup": RBAC}
            binding = {"metadata": {"name": role["name"]}, "subjects": [subject], "roleRef": role}
            admin.call("POST", f"/apis/{RBAC}/v1/clusterrolebindings", binding)
            env = {"KUBECONFIG": str(plane.kubeconfig_for(account))}
            command = [neighbour_binary("kai", name), *_kai_flags(name)]
            process = stack.enter_context(_running(Process(name, folder), command, env))
        yield process


def _kai_flags(name: str) -> tuple[str, ...]:
    if name == "scheduler":
        return f"--listen-address=127.0.0.1:{free_port()}", f"--plugin-server-port={free_port()}"
    return "--metrics-bind-address=0", "--health-probe-bind-address=0"


def kai_queue(name: str, parent: str, cpus: float = 4) -> dict:
    """Return a queue of KAI with a quota and a limit of CPUs, and no limit of anything else."""
    free = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    cpu = free | {"quota": cpus * 1000, "limit": cpus * 1000}  # in thousandths of a CPU
    spec = {"resources": {"cpu": cpu, "memory": free, "gpu": free}} | ({"parentQueue": parent} if parent else {})
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def install(plane: ControlPlane, crds: Path) -> None:
    """Create CRDs from a file or folder, and wait until all of them are served."""
    kubectl_file(plane, "create", crds)
    user = UserClient(plane.kubeconfig, "default")
    for path in sorted(crds.glob("*.yaml")) if crds.is_dir() else (crds,):
        spec = yaml.safe_load(path.read_text())["spec"]
        served = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        eventually(lambda served=served: user.serves(served), 60)


@contextmanager
def _running(process: Process, command: list[str | Path], env: dict[str, str] | None = None) -> Iterator[Process]:
    process.start(command, tied=True, env=env)
    try:
        yield process
        assert process.pid, process.log.read_text()[-3000:]
    finally:
        process.stop(patience=5)

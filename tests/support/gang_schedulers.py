"""The real gang schedulers, each with what it needs on a control plane, started beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from testbed.binaries import binary, module_folder
from testbed.control_plane import ControlPlane
from testbed.neighbours import neighbour_binary, source_tree
from testbed.places import written
from testbed.processes import Process

from .kubectl import kubectl_file
from .user_client import Refused, UserClient, eventually

#: The feature gate of Kubernetes' own gang scheduling, and the API that it needs.
GATE = "--feature-gates=GenericWorkload=true"
SERVED = "--runtime-config=scheduling.k8s.io/v1beta1=true"
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


@contextmanager
def kubernetes(plane: ControlPlane, folder: Path) -> Iterator[Process]:
    """kube-scheduler with its own gang scheduling; the control plane was started with the gate."""
    command = [binary("kube", "kube-scheduler"), f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false"]
    with _running(Process("kube-scheduler", folder), [*command, "--secure-port=0", GATE]) as process:
        yield process


@contextmanager
def volcano(plane: ControlPlane, folder: Path) -> Iterator[Process]:
    """Volcano's scheduler with the configuration of its Helm chart, and its controllers, which open its queues."""
    tree = source_tree("volcano")
    for part in ("volcano", "jobflow"):  # its controllers wait for all kinds
        _install(plane, tree / "config" / "crd" / part / "bases")
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
    _install(plane, crds / "scheduling.x-k8s.io_podgroups.yaml")
    folder.mkdir(parents=True, exist_ok=True)
    config = written(folder / "config.yaml", COSCHEDULING_CONFIG.format(kubeconfig=plane.kubeconfig))
    command = [binary("scheduler-plugins", "scheduler"), f"--config={config}", "--secure-port=0"]
    command.append("--pod-max-in-unschedulable-pods-duration=10s")  # else it tries a refused gang again after 5 min
    with _running(Process("scheduler", folder), command) as process:
        yield process


def _install(plane: ControlPlane, crds: Path) -> None:
    """Create CRDs from a file or folder, and wait until all of them are served."""
    kubectl_file(plane, "create", crds)
    user = UserClient(plane.kubeconfig, "default")
    for path in sorted(crds.glob("*.yaml")) if crds.is_dir() else (crds,):
        spec = yaml.safe_load(path.read_text())["spec"]
        served = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        eventually(lambda served=served: _answers(user, served), 60)


def _answers(user: UserClient, path: str) -> bool:
    try:
        return "items" in user.call("GET", path)
    except Refused:
        return False


@contextmanager
def _running(process: Process, command: list[str | Path]) -> Iterator[Process]:
    process.start(command, tied=True)
    try:
        yield process
        assert process.pid, process.log.read_text()[-3000:]
    finally:
        process.stop(patience=5)

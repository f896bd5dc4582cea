"""Neighbours on the kind cluster, as their own manifests or charts install them, with images of their own programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from support.gang_schedulers import COSCHEDULING, KAI_QUEUES, RBAC, kai_queue
from support.kubectl import PATIENCE, Kubectl, kustomized
from support.kueue import FRAMEWORKS, NAMESPACE, manifests
from support.release import Helm
from testbed import kind
from testbed.binaries import binary, module_folder
from testbed.certificates import Authority
from testbed.neighbours import NEIGHBOURS, neighbour_binary, source_tree

#: What their manifests request is more than a busy test machine has.
RESOURCES = {"requests": {"cpu": "10m", "memory": "64Mi"}}
INSTALL = ("--create-namespace", "--no-hooks", "--wait", "--timeout=200s")
METRICS_SERVER, KAI = "metrics-server", "kai-scheduler"


@contextmanager
def kueue(kubectl: Kubectl, folder: Path) -> Iterator[None]:
    """Install Kueue with the kinds of kubeflow.org switched on, and wait until it is ready; remove it at the end."""
    (image,) = _images("kueue", "kueue")
    objects = [_kueue(item, image) for item in manifests()]
    with _applied(kubectl, folder / "kueue.yaml", objects):
        try:
            rolled_out(kubectl, "--namespace", NAMESPACE, "deployment/kueue-controller-manager")
            yield
        finally:
            # Without Kueue its webhooks would refuse all pods.
            for verb in ("mutating", "validating"):
                name = f"{verb}webhookconfiguration/kueue-{verb}-webhook-configuration"
                kubectl("delete", "--ignore-not-found", name)


@contextmanager
def volcano(kubeconfig: str, folder: Path) -> Iterator[None]:
    """Volcano's own chart: its scheduler, its controllers and its webhooks."""
    parts = {"scheduler": "vc-scheduler", "controller": "vc-controller-manager", "admission": "vc-webhook-manager"}
    tag, name = NEIGHBOURS["volcano"].version, "volcano"
    basic = {"image_registry": "localhost", "image_tag_version": tag, "image_pull_policy": "Never"}
    _images(name, *parts.values())
    basic |= {f"{part}_image_name": program for part, program in parts.items()}
    chart = source_tree(name) / "installer/helm/chart/volcano"
    with (
        _applied(Kubectl(kubeconfig), folder / "secret.yaml", _volcano_certificates(folder)),
        _release(kubeconfig, name, folder, chart, {"basic": basic}),
    ):
        yield


@contextmanager
def coscheduling(kubeconfig: str, folder: Path) -> Iterator[None]:
    """The chart of scheduler-plugins with the coscheduling plugin alone, without its controller."""
    source = module_folder("scheduler-plugins")
    crd = source / "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"
    chart = source / "manifests/install/charts/as-a-second-scheduler"
    path = binary("scheduler-plugins", "scheduler")
    (image,) = kind.load_programs(path.parent.name.removeprefix("scheduler-plugins-"), path)
    # Without the flag it tries a refused gang again after five minutes.
    command = ["scheduler", "--pod-max-in-unschedulable-pods-duration=10s"]
    values = {
        "scheduler": {"name": COSCHEDULING, "image": image, "command": command},
        "controller": {"replicaCount": 0},
        "plugins": {"enabled": ["Coscheduling"]},
    }
    with (
        _applied(Kubectl(kubeconfig), folder / "crd.yaml", [yaml.safe_load(crd.read_text())]),
        _release(kubeconfig, "scheduler-plugins", folder, chart, values),
    ):
        yield


@contextmanager
def kai(kubeconfig: str, folder: Path) -> Iterator[None]:
    """KAI's pod-grouper, scheduler and binder with the CRDs, rights, priorities and queues of its chart.

    Its chart installs an operator that creates these Deployments, webhooks and controllers of queues and PodGroups.
    """
    kubectl, chart = Kubectl(kubeconfig), source_tree("kai") / "deployments" / KAI
    names = ("podgrouper", "scheduler", "binder")
    files = [*(chart / "crds").glob("*.yaml"), *(chart / "templates/priorityclasses").glob("*.yaml")]
    files += [chart / f"templates/rbac/{name}.yaml" for name in names]
    objects = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KAI}}]
    objects += [item for path in sorted(files) for item in yaml.safe_load_all(path.read_text()) if item]
    queues = [kai_queue(name, parent) for name, parent in KAI_QUEUES.items()]
    images = zip(names, _images("kai", *names), strict=True)
    programs = [item for name, image in images for item in _kai_program(name, image)]
    with ExitStack() as stack:
        stack.enter_context(_applied(kubectl, folder / "kai.yaml", objects))
        kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/queues.scheduling.run.ai")
        stack.enter_context(_applied(kubectl, folder / "kai-queues.yaml", queues))
        stack.enter_context(_applied(kubectl, folder / "kai-programs.yaml", programs))
        for name in names:
            rolled_out(kubectl, "--namespace", KAI, f"deployment/{name}")
        yield


@contextmanager
def metrics_server(kubectl: Kubectl, folder: Path) -> Iterator[None]:
    """metrics-server with its own manifests; it does not verify the certificates of kind's kubelets."""
    path = binary(METRICS_SERVER, METRICS_SERVER)
    (image,) = kind.load_programs(path.parent.name.removeprefix(f"{METRICS_SERVER}-"), path)
    objects = kustomized(module_folder(METRICS_SERVER) / "manifests/base")
    for item in objects:
        if item["kind"] == "Deployment":
            (container,) = item["spec"]["template"]["spec"]["containers"]
            container |= {"image": image, "imagePullPolicy": "Never", "resources": RESOURCES}
            container["args"].append("--kubelet-insecure-tls")
    with _applied(kubectl, folder / "metrics-server.yaml", objects):
        rolled_out(kubectl, "--namespace", "kube-system", f"deployment/{METRICS_SERVER}")
        yield


def rolled_out(kubectl: Kubectl, *which: str) -> None:
    """Wait until all pods of a Deployment are ready."""
    kubectl("rollout", "status", *which, f"--timeout={PATIENCE}s", timeout=PATIENCE + 10)


def _images(neighbour: str, *programs: str) -> list[str]:
    """Load the images of programs of a neighbour; return their names."""
    paths = [neighbour_binary(neighbour, program) for program in programs]
    return kind.load_programs(NEIGHBOURS[neighbour].version, *paths)


@contextmanager
def _applied(kubectl: Kubectl, path: Path, objects: Iterable[dict]) -> Iterator[None]:
    """Apply objects from a file of this path; delete them at the end, and with CRDs all objects of their kinds."""
    path.write_text(yaml.dump_all(objects, Dumper=yaml.CSafeDumper))
    try:
        kubectl("apply", "--server-side", "-f", str(path), timeout=PATIENCE)
        yield
    finally:
        kubectl("delete", "--ignore-not-found", "-f", str(path), timeout=PATIENCE)


@contextmanager
def _release(kubeconfig: str, name: str, folder: Path, chart: Path, values: dict) -> Iterator[None]:
    """Install a release of a chart in a namespace of its own, and wait until it is ready; remove both at the end.

    Its hooks are left out: Volcano's only one makes certificates, with a script of its image.
    """
    namespace = f"{name}-system"
    helm, path = Helm(4, kubeconfig, namespace), folder / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    try:
        helm("install", name, str(chart), *INSTALL, "--values", str(path))
        yield
    finally:
        helm("uninstall", "--ignore-not-found", "--wait", "--timeout=200s", name)
        Kubectl(kubeconfig)("delete", "--ignore-not-found", "namespace", namespace, timeout=PATIENCE)


def _kueue(item: dict, image: str) -> dict:
    """Return an object of Kueue's manifests: the Deployment with this image, the configuration with all kinds."""
    if item["kind"] == "Deployment":
        (container,) = item["spec"]["template"]["spec"]["containers"]
        del container["command"]  # the image has its program as its entry point
        container |= {"image": image, "imagePullPolicy": "Never", "resources": RESOURCES}
        item["spec"]["template"]["spec"]["securityContext"]["runAsUser"] = 65532
    if item["kind"] == "ConfigMap":
        config = yaml.safe_load(item["data"]["controller_manager_config.yaml"])
        config["integrations"]["frameworks"] += FRAMEWORKS
        item["data"]["controller_manager_config.yaml"] = yaml.safe_dump(config)
    return item


def _volcano_certificates(folder: Path) -> list[dict]:
    """Return Volcano's namespace and the Secret with the certificates of its webhooks, to which its chart refers."""
    authority, name, namespace = Authority(folder / "pki"), "webhooks", "volcano-system"
    authority.make()
    authority.sign(name, name, hosts=(f"volcano-admission-service.{namespace}.svc",))
    files = {"tls.crt": f"{name}.crt", "tls.key": f"{name}.key", "ca.crt": authority.certificate.name}
    secret = {"name": "volcano-admission-secret", "namespace": namespace}
    data = {key: (authority.folder / file).read_text() for key, file in files.items()}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": secret, "stringData": data},
    ]


def _kai_program(name: str, image: str) -> list[dict]:
    """Return the ServiceAccount, the binding to its ClusterRole and the Deployment of a program of KAI."""
    labels = {"app": name}
    meta = {"name": name, "namespace": KAI}
    container = {"name": name, "image": image, "imagePullPolicy": "Never", "resources": RESOURCES}
    template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": name, "containers": [container]}}
    subject = {"kind": "ServiceAccount", **meta}
    role = {"kind": "ClusterRole", "name": f"kai-{name}", "apiGroup": RBAC}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role["name"]},
            "subjects": [subject],
            "roleRef": role,
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
    ]

"""Kueue on the kind cluster, as its own manifests install it, from an image with its own program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from support.kueue import FRAMEWORKS, NAMESPACE, manifests
from testbed import kind
from testbed.neighbours import NEIGHBOURS, neighbour_binary

from .conftest import PATIENCE, Kubectl

DEPLOYMENT = "kueue-controller-manager"
#: What its manifests request is more than a busy test machine has.
RESOURCES = {"requests": {"cpu": "10m", "memory": "64Mi"}}


@contextmanager
def kueue(kubectl: Kubectl, folder: Path) -> Iterator[None]:
    """Install Kueue with the kinds of kubeflow.org switched on, and wait until it is ready; remove it at the end."""
    image = kind.load_program(neighbour_binary("kueue", "kueue"), NEIGHBOURS["kueue"].version)
    path = folder / "kueue.yaml"
    changed = [_changed(item, image) for item in manifests()]
    path.write_text(yaml.dump_all(changed, Dumper=yaml.CSafeDumper))
    try:
        kubectl("apply", "--server-side", "-f", str(path), timeout=PATIENCE)
        kubectl("--namespace", NAMESPACE, "rollout", "status", f"deployment/{DEPLOYMENT}", timeout=PATIENCE)
        yield
    finally:
        # Without Kueue its webhooks would refuse all pods.
        for verb in ("mutating", "validating"):
            kubectl("delete", "--ignore-not-found", f"{verb}webhookconfiguration/kueue-{verb}-webhook-configuration")
        kubectl("delete", "--ignore-not-found", "-f", str(path), timeout=PATIENCE)


def _changed(item: dict, image: str) -> dict:
    """Return an object of the manifests: the Deployment with this image, the configuration with all kinds."""
    if item["kind"] == "Deployment":
        (container,) = item["spec"]["template"]["spec"]["containers"]
        container |= {"image": image, "imagePullPolicy": "Never", "command": ["kueue"], "resources": RESOURCES}
        item["spec"]["template"]["spec"]["securityContext"]["runAsUser"] = 65532
    if item["kind"] == "ConfigMap":
        config = yaml.safe_load(item["data"]["controller_manager_config.yaml"])
        config["integrations"]["frameworks"] += FRAMEWORKS
        item["data"]["controller_manager_config.yaml"] = yaml.safe_dump(config)
    return item

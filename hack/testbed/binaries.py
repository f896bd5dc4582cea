"""The programs of the cluster, built from their Go modules at pinned versions and kept in the cache by version."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .places import HERE, alone, cache, digest
from .steps import StepFailed, run, step

KUBERNETES = "v1.37.1"
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager")


@dataclass(frozen=True)
class Group:
    """Programs of one module: their packages, build flags, and the build time of all in minutes on two cores."""

    module: str
    packages: dict[str, str]
    minutes: int
    flags: tuple[str, ...] = ()
    linker: str = "-s -w"


def _kubernetes(*names: str) -> dict[str, str]:
    return {name: f"k8s.io/kubernetes/cmd/{name}" for name in names}


def stamp(version: str) -> str:
    """Return the linker flags that tell Kubernetes' programs their version."""
    variable = "k8s.io/component-base/version.git"
    major, minor, _ = version.removeprefix("v").split(".", 2)
    return f"-s -w -X {variable}Version={version} -X {variable}Major={major} -X {variable}Minor={minor}"


GROUPS = {
    "etcd": Group("go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"}, 1),
    "kube": Group(
        "k8s.io/kubernetes",
        _kubernetes(*CONTROL_PLANE, "kube-scheduler", "kube-proxy", "kubelet", "kubeadm", "kubectl"),
        14,
        linker=stamp(KUBERNETES),
    ),
    "containerd": Group(
        "github.com/containerd/containerd/v2",
        {
            name: f"github.com/containerd/containerd/v2/cmd/{name}"
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        },
        4,
        flags=("-tags", "no_btrfs no_devmapper no_zfs no_aufs"),
    ),
    "coredns": Group("github.com/coredns/coredns", {"coredns": "github.com/coredns/coredns"}, 3),
    "cri-tools": Group("sigs.k8s.io/cri-tools", {"crictl": "sigs.k8s.io/cri-tools/cmd/crictl"}, 1),
    "local-path-provisioner": Group(
        "github.com/rancher/local-path-provisioner",
        {"local-path-provisioner": "github.com/rancher/local-path-provisioner"},
        1,
    ),
    "actionlint": Group("github.com/rhysd/actionlint", {"actionlint": "github.com/rhysd/actionlint/cmd/actionlint"}, 1),
    "kind": Group("sigs.k8s.io/kind", {"kind": "sigs.k8s.io/kind"}, 1),
    "krew": Group(
        "sigs.k8s.io/krew",
        {name: f"sigs.k8s.io/krew/cmd/{name}" for name in ("krew", "validate-krew-manifest")},
        2,
    ),
    "kube-score": Group("github.com/zegl/kube-score", {"kube-score": "github.com/zegl/kube-score/cmd/kube-score"}, 1),
    "training-operator": Group(
        "github.com/kubeflow/training-operator",
        {"training-operator": "github.com/kubeflow/training-operator/cmd/training-operator.v1"},
        2,
    ),
    "scheduler-plugins": Group(
        "sigs.k8s.io/scheduler-plugins", {"scheduler": "sigs.k8s.io/scheduler-plugins/cmd/scheduler"}, 10
    ),
    "metrics-server": Group(
        "sigs.k8s.io/metrics-server", {"metrics-server": "sigs.k8s.io/metrics-server/cmd/metrics-server"}, 4
    ),
    "katib": Group(
        "github.com/kubeflow/katib",
        {
            "file-metricscollector": "github.com/kubeflow/katib/cmd/metricscollector/v1beta1/file-metricscollector",
            "katib-db-manager": "trainshed.dev/bed/katib",
        },
        1,
    ),
    "helm3": Group("helm.sh/helm/v3", {"helm": "helm.sh/helm/v3/cmd/helm"}, 3),
    "helm4": Group("helm.sh/helm/v4", {"helm": "helm.sh/helm/v4/cmd/helm"}, 3),
}


def binary(group: str, name: str) -> Path:
    """The path of a program, which is built first if it is not there."""
    path = folder(group) / name
    if not path.exists():
        with alone(path.parent / f"{name}.lock"):  # tests that run beside each other want the same
            if not path.exists():
                _build(group, name, path)
    return path


def programs(group: str) -> list[Path]:
    """The paths of all programs of a group, which are built first if they are not there."""
    return [binary(group, name) for name in GROUPS[group].packages]


def folder(group: str) -> Path:
    """Return the folder of a group's programs at the pinned version."""
    path = cache() / "bin" / f"{group}-{_pinned(group)}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def module_folder(group: str) -> Path:
    """Return the folder with the source of a group's module at the pinned version."""
    return downloaded(GROUPS[group].module, _pinned(group))


def downloaded(module: str, version: str) -> Path:
    """Return the folder with the source of a module as it was tagged; Go downloads it into its own cache."""
    with step(f"downloading {module} {version}"):
        command = ["go", "mod", "download", "-json", f"{module}@{version}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cache())
    found = json.loads(result.stdout or "{}")
    if "Dir" not in found:
        raise StepFailed(f"{module} {version} cannot be downloaded: {found.get('Error') or result.stderr}")
    return Path(found["Dir"])


def _pinned(group: str) -> str:
    pinned = (HERE / "tools" / group / "go.mod").read_text()
    found = re.search(rf"^(?:require )?\s*{re.escape(GROUPS[group].module)} (v\S+)", pinned, re.MULTILINE)
    if not found:
        raise StepFailed(f"tools/{group}/go.mod does not pin {GROUPS[group].module}")
    return found[1]


def _build(group: str, name: str, path: Path) -> None:
    spec = GROUPS[group]
    what = f"building {name} (once; {group} takes about {spec.minutes} min on two cores)"
    build(path, spec.packages[name], HERE / "tools" / group, what, (*spec.flags, "-ldflags", spec.linker))


def own(name: str, minutes: int) -> Path:
    """Return where a program of tools/NAME is, a main.go of this project; it is built first if that has changed."""
    source = HERE / "tools" / name
    version = digest("".join((source / file).read_text() for file in ("main.go", "go.mod", "go.sum")))
    path = cache() / "bin" / f"{name}-{version}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path.with_suffix(".lock")):
        if not path.exists():
            build(path, ".", source, f"building {name} (once; about {minutes} min on two cores)")
    return path


def build(path: Path, package: str, source: Path, what: str, flags: tuple[str, ...] = ("-ldflags", "-s -w")) -> None:
    """Build a program from a package of the module in `source`; raises StepFailed with what to try."""
    if not shutil.which("go"):
        raise StepFailed("Go is needed to build the cluster's programs, and is not on the PATH.")
    fresh = path.with_suffix(".new")
    with step(what):
        run(
            ["nice", "go", "build", "-trimpath", *flags, "-o", fresh, package],
            cache() / "logs" / f"build-{path.name}.log",
            hint="the same command again: finished parts are kept; is the Go module proxy reachable?",
            cwd=source,
            env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
        )
        fresh.rename(path)


def servers() -> set[str]:
    """The names of the programs that go on running on this machine itself, not in a node."""
    return {"dockerd", "containerd", "containerd-shim-runc-v2", "etcd", *CONTROL_PLANE}

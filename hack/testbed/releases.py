"""The releases of Kubernetes whose control planes the tests can run on: the pinned one, or an older one.

TRAINSHED_KUBERNETES=1.30 selects an older one for all control planes of a test run. Its programs are built from its own
module, with the versions of all other modules that its release has, and kept in the cache by version.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from .binaries import KUBERNETES, binary, build, downloaded, stamp
from .places import alone, cache
from .steps import StepFailed

VARIABLE = "TRAINSHED_KUBERNETES"
ETCD = "go.etcd.io/etcd/server/v3"
#: Leaves out the libraries of cloud providers, which Kubernetes 1.30 still has.
TAGS = "providerless"


@dataclass(frozen=True)
class Release:
    """A version of Kubernetes, and the version of etcd in its own build/dependencies.yaml."""

    kubernetes: str
    etcd: str


#: The older releases that are tested, oldest first, by their minor version.
OLDER = {
    "1.30": Release("v1.30.14", "v3.5.15"),
    "1.33": Release("v1.33.13", "v3.5.24"),
    "1.35": Release("v1.35.3", "v3.6.6"),
    "1.36": Release("v1.36.2", "v3.6.8"),
}


def minor_version() -> str:
    """Return the minor version of Kubernetes of this test run, such as "1.37"."""
    return os.environ.get(VARIABLE) or KUBERNETES.removeprefix("v").rpartition(".")[0]


def program(name: str) -> Path:
    """The path of etcd or of a program of Kubernetes, of this run's release; it is built first if it is not there."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return binary("etcd" if name == "etcd" else "kube", name)
    if wanted not in OLDER:
        raise StepFailed(f"{VARIABLE}={wanted} is not one of {', '.join(OLDER)}.")
    release = OLDER[wanted]
    if name == "etcd":
        return _built(name, ETCD, ETCD, release.etcd, "-s -w")
    version = release.kubernetes
    return _built(name, "k8s.io/kubernetes", f"k8s.io/kubernetes/cmd/{name}", version, stamp(version))


def _built(name: str, module: str, package: str, version: str, linker: str) -> Path:
    folder = cache() / "bin" / f"{'etcd' if name == 'etcd' else 'kube'}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    with alone(folder / "module.lock"):  # tests that run beside each other want the same
        if not path.exists():
            _write_module(folder / "module", module, version)
            what = f"building {name} {version} (once; a kube-apiserver takes about 5 min on two cores)"
            build(path, package, folder / "module", what, ("-mod=mod", "-tags", TAGS, "-ldflags", linker))
    return path


def _write_module(folder: Path, module: str, version: str) -> None:
    """Write a module that requires this one and the versions that it was released with.

    Its go.sum has the checksums of the release; Go adds those of the release's own modules from the checksum database.
    """
    folder.mkdir(exist_ok=True)
    source = downloaded(module, version)
    (folder / "go.sum").write_text((source / "go.sum").read_text())
    (folder / "go.mod").write_text(module_text((source / "go.mod").read_text(), module, version))


def module_text(text: str, module: str, version: str) -> str:
    """Return the go.mod of a module that requires `module`, by the text of the go.mod of `module` itself.

    In its own repository it replaces other modules by folders: these lines are left out, because the folders are no
    part of the module. Kubernetes requires its own other modules as v0.0.0; they are released as v0 with its minor
    version.
    """
    text = re.sub(r"^module .*", "module trainshed.dev/bed/release", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^(replace )?\s*\S+ => \..*\n", "", text, flags=re.MULTILINE)
    own = re.findall(r"^\s*(?:require )?(\S+) v0\.0\.0(?: //.*)?$", text, re.MULTILINE)
    released = version.replace("v1.", "v0.", 1)
    return "\n".join(
        (text, f"require {module} {version}", *(f"replace {name} => {name} {released}" for name in own), "")
    )

"""The programs of neighbours, such as Kueue, built from their own source at pinned versions and kept in the cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .archives import unpacked
from .binaries import build, downloaded
from .places import ROOT, alone, cache, digest


@dataclass(frozen=True)
class Neighbour:
    """A project: its Go module and version or commit, the archive with its source tree, its programs, minutes for all.

    `programs` are packages below the root of the tree.
    """

    module: str
    version: str
    archive: str
    programs: dict[str, str]
    minutes: int


#: The versions that are tested.
NEIGHBOURS = {
    "kueue": Neighbour("sigs.k8s.io/kueue", "v0.19.2", "kueue-0.19.tar.gz", {"kueue": "./cmd/kueue"}, 10),
    "volcano": Neighbour(
        "volcano.sh/volcano",
        "v1.15.0",
        "volcano-1.15.tar.gz",
        {
            "vc-scheduler": "./cmd/scheduler",
            "vc-controller-manager": "./cmd/controller-manager",
            "vc-webhook-manager": "./cmd/webhook-manager",
        },
        15,
    ),
    "kai": Neighbour(
        "github.com/NVIDIA/KAI-scheduler",
        "72de64fc",
        "kai-scheduler.tar.gz",
        {"podgrouper": "./cmd/podgrouper", "scheduler": "./cmd/scheduler", "binder": "./cmd/binder"},
        10,
    ),
}


def neighbour_binary(neighbour: str, program: str) -> Path:
    """The path of a program, which is built first if it is not there."""
    known = NEIGHBOURS[neighbour]
    path = _folder(neighbour) / program
    with alone(path.parent / f"{program}.lock"):  # tests that run beside each other want the same
        if not path.exists():
            what = f"building {program} (once; {neighbour} takes about {known.minutes} min on two cores)"
            build(path, known.programs[program], source_tree(neighbour), what)
    return path


def source_tree(neighbour: str) -> Path:
    """The source tree of a neighbour, with its manifests: an archive if there is one, else its module."""
    found = _archive(neighbour)
    if found is None:
        return _module(neighbour)
    return unpacked(found, _folder(neighbour) / "source", "--strip-components=1")


def _folder(neighbour: str) -> Path:
    """Where the programs of this source are: by the version, and by the content of an archive."""
    found = _archive(neighbour)
    version = NEIGHBOURS[neighbour].version + (f"-{digest(found.read_bytes())}" if found else "")
    path = cache() / "bin" / f"{neighbour}-{version}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _archive(neighbour: str) -> Path | None:
    """The archive in the folder TRAINSHED_NEIGHBOURS, or in a folder shared/neighbours beside or above the checkout."""
    named = os.environ.get("TRAINSHED_NEIGHBOURS")
    folders = [Path(named)] if named else [folder / "shared" / "neighbours" for folder in ROOT.parents]
    paths = (folder / NEIGHBOURS[neighbour].archive for folder in folders)
    return next((path for path in paths if path.exists()), None)


def _module(neighbour: str) -> Path:
    """The module of this version, as it was tagged."""
    known = NEIGHBOURS[neighbour]
    return downloaded(known.module, known.version)

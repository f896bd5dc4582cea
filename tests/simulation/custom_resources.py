"""The resources of the project's CRDs, and of the PodGroups of gang schedulers, with their schemas."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import yaml

from trainshed.memory.built_in import BUILT_IN
from trainshed.memory.resources import ServedResource
from trainshed.memory.server import Server

from .schema_validation import SchemaValidator

ROOT = Path(__file__).parents[2]
CRDS, GROUPS = ROOT / "crds", ROOT / "tests" / "support" / "podgroups"


@cache
def custom_resources(version: str = "v1") -> tuple[ServedResource, ...]:
    """Return the resources of the project's CRDs, with MPIJob at this version, and the PodGroups of gang schedulers."""
    files = [path for path in sorted(CRDS.glob("*.yaml")) if version == "v1" or "mpijobs" not in path.name]
    if version != "v1":
        files += sorted((CRDS / version).glob("*.yaml"))
    return tuple(_from_crd(path) for path in (*files, *sorted(GROUPS.glob("*.yaml"))))


def _from_crd(path: Path) -> ServedResource:
    spec = yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]
    version = next(found for found in spec["versions"] if found["storage"])
    return ServedResource(
        prefix=f"/apis/{spec['group']}/{version['name']}",
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        status="status" in version.get("subresources", {}),
        has_generation=True,
        validator=SchemaValidator(version["schema"]["openAPIV3Schema"]),
        unversioned_put=False,
    )


def whole_server(now: Callable[[], float], seed: int = 0, mpi: str = "v1") -> Server:
    """Return a server with all resources and the schemas of the CRDs."""
    return Server(now, BUILT_IN + custom_resources(mpi), seed=seed)

"""The kinds of jobs. A new kind is a new file in this package and one line here.

What users read about a kind alone, problems of its spec and its warnings, stands in its file; see `plan/messages`.
"""

from __future__ import annotations

from collections.abc import Collection

from trainshed.api.framework import Framework

from .jax import JAX
from .mpi import MPI
from .mpi_v2beta1 import MPI_V2BETA1
from .paddle import PADDLE
from .pytorch import PYTORCH
from .tensorflow import TENSORFLOW
from .xgboost import XGBOOST

FRAMEWORKS = (TENSORFLOW, PYTORCH, XGBOOST, PADDLE, JAX, MPI)
#: The versions of MPIJob. A cluster serves one of them, because their specs differ and there is no conversion webhook.
MPI_VERSIONS = {framework.version: framework for framework in (MPI, MPI_V2BETA1)}
#: All of them, by the version of their API and their kind.
ALL_VERSIONS = {(known.api_version, known.kind): known for known in (*FRAMEWORKS, MPI_V2BETA1)}


def served(mpi_version: str, kinds: Collection[str] = ()) -> tuple[Framework, ...]:
    """Return the frameworks of these kinds, or of all kinds if none is named, with MPIJob in this version."""
    known = (*FRAMEWORKS[:-1], MPI_VERSIONS[mpi_version])
    return tuple(framework for framework in known if not kinds or framework.kind in kinds)


__all__ = ["ALL_VERSIONS", "FRAMEWORKS", "MPI_VERSIONS", "served"]

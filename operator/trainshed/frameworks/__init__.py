"""The frameworks we know, one small file each; a new kind is a new file and a line here."""

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
#: The versions of MPIJob; a cluster serves one of them, for their shapes differ and nobody converts them.
MPI_VERSIONS = {framework.version: framework for framework in (MPI, MPI_V2BETA1)}


def served(mpi_version: str, kinds: Collection[str] = ()) -> tuple[Framework, ...]:
    """The frameworks of a cluster whose MPIJobs are of this version: those of these kinds, or all if none is named."""
    known = (*FRAMEWORKS[:-1], MPI_VERSIONS[mpi_version])
    return tuple(framework for framework in known if not kinds or framework.kind in kinds)


__all__ = ["FRAMEWORKS", "MPI_VERSIONS", "served"]

"""The frameworks we know, one small file each; a new kind is a new file and a line here."""

from .jax import JAX
from .mpi import MPI
from .paddle import PADDLE
from .pytorch import PYTORCH
from .tensorflow import TENSORFLOW
from .xgboost import XGBOOST

FRAMEWORKS = (TENSORFLOW, PYTORCH, XGBOOST, PADDLE, JAX, MPI)

__all__ = ["FRAMEWORKS"]

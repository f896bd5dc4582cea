"""The frameworks we know, one small file each; a new kind is a new file and a line here."""

from .pytorch import PYTORCH
from .tensorflow import TENSORFLOW

FRAMEWORKS = (TENSORFLOW, PYTORCH)

__all__ = ["FRAMEWORKS"]

"""What a test of the whole operator needs: a hand on the API server, pods whose lives it plays, the operator itself."""

import pytest

from .hand import Hand, Refused
from .operator import Operator, Operators
from .proxy import Proxy
from .stage import Stage

__all__ = ["Hand", "Operator", "Operators", "Proxy", "Refused", "Stage", "timed"]

#: A promise in seconds, which a machine that others use as well may break: kept in one of three tries it can be kept.
timed = pytest.mark.flaky(reruns=2)

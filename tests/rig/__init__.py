"""What a test of the whole operator needs: a hand on the API server, pods whose lives it plays, the operator itself."""

from .hand import Hand, Refused
from .operator import Operator, Operators
from .proxy import Proxy
from .stage import Stage

__all__ = ["Hand", "Operator", "Operators", "Proxy", "Refused", "Stage"]

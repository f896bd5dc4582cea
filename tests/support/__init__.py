"""What a test of the whole operator needs: a hand on the API server, pods whose lives it plays, the operator itself."""

from .fake_kubelet import Stage
from .operator import Operator, Operators
from .proxy import Proxy
from .user_client import Hand, Refused

__all__ = ["Hand", "Operator", "Operators", "Proxy", "Refused", "Stage"]

"""What a test of the whole operator needs: a user's client, a fake kubelet, a fault proxy, and the operator itself."""

from .fake_kubelet import Stage
from .fault_proxy import FaultProxy
from .operator import Operator, Operators
from .user_client import Hand, Refused

__all__ = ["FaultProxy", "Hand", "Operator", "Operators", "Refused", "Stage"]

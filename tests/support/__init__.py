"""Support for tests of the whole operator: a user's client, a fake kubelet, a fault proxy, and the operator itself."""

from .fake_kubelet import FakeKubelet
from .fault_proxy import FaultProxy
from .operator import Operator, Operators
from .user_client import Refused, UserClient

__all__ = ["FakeKubelet", "FaultProxy", "Operator", "Operators", "Refused", "UserClient"]

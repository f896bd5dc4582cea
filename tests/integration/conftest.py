"""A real API server with the CRDs, a namespace for each test, and the operator."""

from __future__ import annotations

from support.fixtures import kubelet, operators, second_user, server, shared_operator, user

__all__ = ["kubelet", "operators", "second_user", "server", "shared_operator", "user"]

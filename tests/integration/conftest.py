"""A real API server with our CRDs, a namespace for each test, and the operator."""

from __future__ import annotations

from support.fixtures import elsewhere, hand, operators, server, shared_operator, stage, yard

__all__ = ["elsewhere", "hand", "operators", "server", "shared_operator", "stage", "yard"]

"""A real API server with our CRDs, a namespace for each test, and the operator."""

from __future__ import annotations

from rig.fixtures import hand, server, shared_operator, stage

__all__ = ["hand", "server", "shared_operator", "stage"]

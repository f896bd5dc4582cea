"""The types that all packages share: immutable values and pure functions."""

from __future__ import annotations

"""The words everybody shares: frozen values that say what is, and nothing that does."""

from __future__ import annotations

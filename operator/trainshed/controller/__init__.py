"""The controller: informers fill caches, a work queue holds job keys, and workers reconcile one job at a time."""

from __future__ import annotations

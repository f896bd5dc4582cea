"""Trainshed runs distributed training jobs of the kubeflow.org/v1 kinds on Kubernetes.

`api` holds the words everybody shares, `frameworks` what each kind wants, `plan` the thought that decides about a job,
`cluster` the hands that speak to the API server, `loop` the clockwork that brings them together, `cli` the command
line. Read `api/actions.py`, `plan/ladder.py`, `frameworks/jax.py`, `loop/reconcile.py`, in this order.
"""

from __future__ import annotations

"""Trainshed runs distributed training jobs of the kubeflow.org/v1 kinds on Kubernetes.

`api` has the types that all packages share, `frameworks` one file for each kind of job, `plan` the planner that decides
what to do for a job, `client` the client of the API server, `controller` the controller that connects them, and `cli`
the command line. Read `api/actions.py`, `plan/rules.py`, `frameworks/jax.py` and `controller/reconciler.py`, in this
order.
"""

from __future__ import annotations

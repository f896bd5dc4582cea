"""docs/ten-jobs.md: each job does not run for its reason, and the command prints what the page shows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from support.kubectl import PATIENCE, Kubectl
from support.prepared_jobs import GANG, QUEUE, apply, prepared, prints_what_is_shown

JOBS = {name: job for name, job in prepared().items() if name not in (GANG, QUEUE)}


@pytest.fixture(scope="module")
def namespaces(kubeconfig: str) -> Iterator[dict[str, Kubectl]]:
    """kubectl in the namespace of each job. All are applied before the first is looked at: some wait for long."""
    found = {name: Kubectl(kubeconfig, f"ten-{name}-{uuid.uuid4().hex[:6]}") for name in JOBS}
    try:
        for name, kubectl in found.items():
            kubectl("create", "namespace", kubectl.command[-1])
            apply(JOBS[name], kubectl)
        yield found
    finally:
        names = (kubectl.command[-1] for kubectl in found.values())
        Kubectl(kubeconfig)("delete", "namespace", "--ignore-not-found", *names, timeout=PATIENCE)


@pytest.mark.parametrize("name", JOBS)
def test_one_command_says_why_a_job_does_not_run(name: str, namespaces: dict[str, Kubectl], kubeconfig: str) -> None:
    prints_what_is_shown(JOBS[name], namespaces[name], kubeconfig)

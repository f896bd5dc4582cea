"""docs/ten-jobs.md: each job does not run for its reason, and the command prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.kubectl import Kubectl
from support.prepared_jobs import GANG, QUEUE, prepared, prints_what_is_shown


@pytest.mark.parametrize("name", [name for name in prepared() if name not in (GANG, QUEUE)])
def test_one_command_says_why_a_job_does_not_run(name: str, kubectl: Kubectl, kubeconfig: str, tmp_path: Path) -> None:
    prints_what_is_shown(prepared()[name], kubectl, kubeconfig, tmp_path)

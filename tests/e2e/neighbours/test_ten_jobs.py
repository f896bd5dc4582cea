"""The two of docs/ten-jobs.md that wait for another program: the command prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.kubectl import Kubectl
from support.prepared_jobs import GANG, QUEUE, prepared, prints_and_goes

from . import deployments

pytestmark = pytest.mark.long
INSTALLED, SCHEDULER = deployments.kai, deployments.KAI


@pytest.mark.usefixtures("room", "scheduler")
def test_explain_says_that_a_gang_waits_for_room(kubectl: Kubectl, kubeconfig: str) -> None:
    prints_and_goes(prepared()[GANG], kubectl, kubeconfig)


def test_explain_says_what_a_queue_of_kueue_waits_for(kubectl: Kubectl, kubeconfig: str, tmp_path: Path) -> None:
    with deployments.kueue(Kubectl(kubeconfig), tmp_path):
        prints_and_goes(prepared()[QUEUE], kubectl, kubeconfig)

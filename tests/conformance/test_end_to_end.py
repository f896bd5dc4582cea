"""Real jobs of each kind on a real node, and the logs that the SDK reads there (TO-252, TO-257, TO-259 to TO-264)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.conftest import kubeconfig, kubectl, operator, user
from e2e.example import FOLDER, ends_as_it_says
from support import UserClient

from .row import same

__all__ = ["kubeconfig", "kubectl", "operator", "user"]

HERE = Path(__file__)
PYTHON = HERE.parents[2] / ".venv-sdk" / "bin" / "python"


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(
            "pytorch/distributed-pytorch-job",
            marks=same("TO-259", "a PyTorchJob with master and workers trains to its end"),
        ),
        pytest.param("tensorflow/sweep", marks=same("TO-260", "TFJobs of one worker train to their end")),
        pytest.param("xgboost/iris", marks=same("TO-261", "an XGBoostJob trains to its end")),
        pytest.param(
            "mpi/allreduce",
            marks=same("TO-262", "an MPIJob trains to its end, its launcher starting ranks in its workers"),
        ),
        pytest.param("paddle/collective", marks=same("TO-263", "a PaddleJob of two workers trains to its end")),
        pytest.param("jax/spmd", marks=same("TO-264", "a JAXJob of two workers trains to its end")),
    ],
)
def test_a_job_trains_to_its_end(example: str, kubectl: Callable[..., str], user: UserClient, tmp_path: Path):
    for job in ends_as_it_says(FOLDER / f"{example}.yaml", kubectl, user, tmp_path):
        conditions = user.conditions(job.kind, job.name)
        assert len(conditions) >= 2
        true = {kind for kind, condition in conditions.items() if condition["status"] == "True"}
        assert true == {"Created", "Succeeded"}


@same("TO-252", "get_job_logs gives the master's log")
@same("TO-257", "get_job_logs with verbose gives the events of the job and of its pods")
def test_the_sdk_reads_logs(kubeconfig: str, kubectl: Callable[..., str]):
    assert PYTHON.exists(), "make venv-sdk"
    namespace = kubectl.command[-1]
    result = subprocess.run(
        [PYTHON, HERE.with_name("sdk_session.py"), kubeconfig, namespace],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert "the SDK is content" in result.stdout

"""Every example trains for real, until the end that is written in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support import UserClient
from support.sampling import sampled

from .example import FOLDER, ends_as_it_says

EXAMPLES = {f"{path.parent.name}/{path.stem}": path for path in sorted(FOLDER.glob("*/*.yaml"))}
#: One of each kind is followed by conformance/test_end_to_end.py, which looks closer, and Horovod by test_horovod.py.
ELSEWHERE = {
    "jax/spmd",
    "mpi/allreduce",
    "mpi/horovod",
    "mpi/horovod-elastic",
    "paddle/collective",
    "pytorch/distributed-pytorch-job",
    "tensorflow/sweep",
    "xgboost/iris",
}


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 13
    assert EXAMPLES.keys() >= ELSEWHERE


#: Those of `make test`: a restart, peers by torchrun and by TF_CONFIG.
USUAL = ("pytorch/restart", "pytorch/torchrun-elastic", "tensorflow/distributed-tensorflow-job")


@pytest.mark.parametrize("name", sampled([name for name in EXAMPLES if name not in ELSEWHERE], *USUAL))
def test_an_example_ends_as_it_says(name: str, kubectl: Callable[..., str], user: UserClient, tmp_path: Path) -> None:
    ends_as_it_says(EXAMPLES[name], kubectl, user, tmp_path)

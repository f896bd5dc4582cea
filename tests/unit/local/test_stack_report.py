"""The stacks of a job that hangs are read by py-spy in a local run, before the job restarts."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from support.builders import FRAMEWORKS, a_job, pods_of
from trainshed.api.signs import RankAt, StackGroup
from trainshed.local.runtimes.protocol import StartFailed
from trainshed.local.stack_report import StackReport
from trainshed.progress.stack_frames import StacksError

JOB = a_job("PyTorchJob", master=1, worker=2)


def stack(*functions: str, rank: str = "") -> str:
    """What `trainshed.stack_dump` prints of a process."""
    frames = [(function, "/app/train.py", 7) for function in functions]
    return json.dumps({"pid": 1, "RANK": rank, "threads": [{"name": "", "main": True, "frames": frames}]})


def a_report(**outputs: str) -> StackReport:
    """A report on replicas whose processes print this; the others cannot be read."""

    def find(pod: str, name: str) -> SimpleNamespace | None:
        async def stacks() -> str:
            if found := outputs.get(pod.removeprefix("mnist-").replace("-", "_")):
                return found
            raise StartFailed("py-spy is not installed")

        return SimpleNamespace(stacks=stacks) if name == "pytorch" else None

    jobs = (SimpleNamespace(job=JOB, framework=FRAMEWORKS["PyTorchJob"], pod_names=()),)
    return StackReport(jobs, find, SimpleNamespace(say=None))


async def test_ranks_are_grouped_with_their_pods():
    outputs = {"master_0": stack("all_reduce", "train", rank="0"), "worker_0": stack("load", "train")}
    found = await a_report(**outputs, worker_1=stack("all_reduce", "train", rank="2")).read(JOB, tuple(pods_of(JOB)))
    late, waiting = found
    assert late == StackGroup(1, (RankAt(1, "", "mnist-worker-0"),), "load (train.py:7)")
    assert (waiting.count, [one.rank for one in waiting.ranks], waiting.waits) == (2, [0, 2], True)


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ({}, "py-spy is not installed"),
        ({"master_0": json.dumps({"pid": 1, "error": "no right"})}, "py-spy is not installed"),
        (dict.fromkeys(("master_0", "worker_0", "worker_1"), json.dumps({"pid": 1, "error": "no right"})), "no right"),
        (dict.fromkeys(("master_0", "worker_0", "worker_1"), '{"left_out": 0}'), "no Python process runs"),
    ],
    ids=["none", "some", "no right", "no Python"],
)
async def test_that_no_stack_can_be_read_is_said(outputs, words):
    with pytest.raises(StacksError, match=words):
        await a_report(**outputs).read(JOB, tuple(pods_of(JOB)))

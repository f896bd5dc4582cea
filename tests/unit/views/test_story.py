"""The story of a job as a reader sees it: each case is compared as a whole with docs/commands.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.builders import T0, a_job, a_pod, at, look, pods_of, run_policy, running, seen
from support.replace import replace
from trainshed.api.job import Document
from trainshed.api.objects import Container, TerminatedState
from trainshed.plan.facts import Facts
from trainshed.views import story
from trainshed.views.story import Story

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"
TEMPLATE = {
    "spec": {
        "containers": [
            {
                "name": "pytorch",
                "image": "registry.example/train:1",
                "resources": {"limits": {"nvidia.com/gpu": 8, "memory": "2Gi"}},
            }
        ]
    }
}
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\nValueError: bad batch'


def a_training(**fields):
    """A PyTorchJob of one master and three workers."""
    return a_job("PyTorchJob", master=1, worker=3, template=TEMPLATE, created=T0, **fields)


def told(job, *pods, at_second: float, status=None, workload: Document | None = None, **fields) -> Story:
    """The story after the operator has seen these pods, a moment before."""
    decided = look(job, *pods, status=status, now=at(at_second - 1), **fields)
    facts = Facts(seen(job, *pods, status=decided.status, now=at(at_second)))
    return story.tell(facts, {"metadata": {"labels": {}}}, workload)


def waits(replica: str, container: Container, **fields):
    """A pod on a node, whose container waits."""
    return a_pod(replica, "Pending", containers=(container,), node="node-a", created=T0, scheduled=at(1), **fields)


def failed_again(restart: str = "OnFailure", **ended) -> Story:
    """A worker failed an hour after start, and the job restarts."""
    job = a_training(restart=restart, policy=run_policy(backoff_limit=3))
    worker = a_pod("worker-1", "Failed", container="pytorch", node="node-b", created=T0, **ended)
    return told(job, *pods_of(job, worker), status=running(job), at_second=3700)


def quota() -> Story:
    job = a_training()
    used = "requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=32, limited: requests.nvidia.com/gpu=32"
    message = f'pods "mnist-master-0" is forbidden: exceeded quota: gpus, {used}'
    return told(job, status=look(job).status, refusal=("QuotaExceeded", message), at_second=90)


def image() -> Story:
    job = a_training()
    message = 'Back-off pulling image "registry.example/train:1": not found'
    own = Container(
        "pytorch", waiting=True, reason="ImagePullBackOff", message=message, image="registry.example/train:1"
    )
    return told(job, *pods_of(job, waits("master-0", own)), status=running(job), at_second=120)


def out_of_memory() -> Story:
    return failed_again(code=137, ended=3600.0, why="OOMKilled")


def traceback() -> Story:
    return failed_again("Never", code=1, ended=3600.0, why="Error", words=TRACEBACK)


def killed() -> Story:
    return failed_again(code=137, ended=3600.0, why="Error")


def unschedulable() -> Story:
    job = a_training()
    message = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
    pods = [
        a_pod(str(replica), "Pending", containers=(), created=T0, unplaced="Unschedulable", unschedulable=message)
        for replica in job.all_replicas
    ]
    return told(job, *pods, status=look(job).status, at_second=600)


def crash_loop() -> Story:
    job = a_training(restart="OnFailure", policy=run_policy(backoff_limit=6))
    before = TerminatedState(1, at(50), at(52), "Error", TRACEBACK)
    message = "back-off 40s restarting failed container"
    own = Container("pytorch", waiting=True, reason="CrashLoopBackOff", message=message, restarts=3, before=before)
    pod = replace(waits("worker-2", own), phase="Running")
    return told(job, *pods_of(job, pod), status=running(job), at_second=100)


def deadline() -> Story:
    job = a_training(policy=run_policy(deadline=3600))
    return told(job, *pods_of(job), status=running(job), at_second=3610)


def queue() -> Story:
    job = a_training(policy=run_policy(suspend=True), queued=True)
    quota = "insufficient unused quota for nvidia.com/gpu in flavor gpus, 8 more needed"
    message = f"couldn't assign flavors to pod set worker: {quota}"
    condition = {
        "type": "QuotaReserved",
        "status": "False",
        "message": message,
        "lastTransitionTime": "2026-01-01T12:00:10Z",
    }
    workload = {"metadata": {"name": "pytorchjob-mnist-1a2b3"}, "status": {"conditions": [condition]}}
    return told(job, status=look(job).status, workload=workload, at_second=310)


def runs() -> Story:
    job = a_training()
    pods = [replace(pod, node="node-a", ready=True) for pod in pods_of(job)]
    return told(job, *pods, status=running(job), at_second=7200)


CASES = {
    "A ResourceQuota has no room": quota,
    "The image cannot be pulled": image,
    "A replica used more memory than its limit": out_of_memory,
    "The program ended with a traceback": traceback,
    "A replica was killed": killed,
    "No node takes the pods": unschedulable,
    "A container ends again and again": crash_loop,
    "The job was active for too long": deadline,
    "The job waits in a queue of Kueue": queue,
    "All is well": runs,
}


def as_printed(found: Story) -> str:
    """The story in the form of `trainshed explain`, in which no line is wrapped."""
    lines = [found.headline]
    for chapter in found.chapters:
        lines.append("")
        lines += [f"{chapter.title if number == 0 else '':<13}{line}" for number, line in enumerate(chapter.lines)]
    return "\n".join(lines)


def kept() -> dict[str, str]:
    """The stories of the page, by their titles."""
    return dict(re.findall(r"^### ([^\n]+)\n\n```\n(.+?)\n```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("case", CASES)
def test_a_story_is_told_as_it_was_read_once(case: str):
    assert as_printed(CASES[case]()) == kept().get(case)


def test_the_page_has_no_other_stories():
    assert list(kept()) == list(CASES)


def write() -> None:
    """Write the stories again; read them then."""
    text = PAGE.read_text()
    parts = [f"### {case}\n\n```\n{as_printed(tell())}\n```" for case, tell in CASES.items()]
    PAGE.write_text(text[: text.index("\n### ") + 1] + "\n\n".join(parts) + "\n")


def test_foreign_text_cannot_forge_a_line():
    found = failed_again("Never", code=1, ended=3600.0, why="Error", words="oh\x1b[2Jno\n\nWhat to do   run this\r\n")
    lines = as_printed(found).splitlines()
    assert not any(line.startswith("What to do   run") for line in lines)
    assert all(line.isprintable() for line in lines)

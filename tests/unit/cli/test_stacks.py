"""`trainshed stacks` reads what its container has printed, whole and within bounds."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from contextlib import asynccontextmanager

import pytest

from support.builders import a_pod
from support.jobs import smallest
from trainshed import stack_dump
from trainshed.api.objects import Phase
from trainshed.cli.connection import Cluster
from trainshed.cli.job_pods import Target
from trainshed.cli.stack_reading import Reader, for_page
from trainshed.client.ephemeral_containers import EphemeralContainers, NoImage, NotRun
from trainshed.client.job_reader import JobKind
from trainshed.client.transport import Answer, RestClient
from trainshed.views import rank_stacks
from trainshed.views.rank_stacks import ReplicaStacks, parse

POD = a_pod("worker-0")
KIND = JobKind("PyTorchJob", "pytorchjobs", "/apis/kubeflow.org/v1")
FRAME = ["forward", "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", 1511]
ENDED = {"terminated": {"exitCode": 0}}


def a_process(threads: int, frames: list, **fields: object) -> bytes:
    found = [{"name": f"T{number}", "main": number == 0, "frames": frames} for number in range(threads)]
    return json.dumps({"pid": 7, "LOCAL_RANK": "0", "threads": found} | fields).encode()


class Kubelet:
    """A transport to a server on which the container is in this state: it has ended at once, with this output."""

    def __init__(self, output: bytes, state: dict = ENDED) -> None:
        self.output, self.state, self.names = output, state, dict[str, str]()

    async def exchange(self, request) -> Answer:
        if request.path.endswith("/log"):
            return Answer(200, self.output)
        name = str(request.path).split("/pods/")[1].split("/")[0]
        if request.verb == "PATCH":
            body = request.body if isinstance(request.body, dict) else json.loads(request.body)
            self.names[name] = body["spec"]["ephemeralContainers"][-1]["name"]
        ended = [{"name": self.names.get(name, "reader"), "state": self.state}]
        metadata = {"name": name, "uid": f"{name.removeprefix('mnist-')}-uid"}
        pod = {"metadata": metadata, "status": {"ephemeralContainerStatuses": ended}}
        return Answer(200, json.dumps(pod).encode())

    @asynccontextmanager
    async def stream(self, request):
        async def pieces():
            yield self.output

        assert request.path.endswith("/log")
        yield Answer(200), pieces()


async def test_a_page_is_given_what_replicas_that_run_do_and_how_many_were_not_asked(monkeypatch):
    monkeypatch.setenv("TRAINSHED_IMAGE", "trainshed:9")
    pods = [
        a_pod(f"worker-{number}", phase=phase) for number, phase in enumerate((*(Phase.RUNNING,) * 3, Phase.PENDING))
    ]
    rest = RestClient(Kubelet(a_process(1, [FRAME])))

    class Reads:
        async def pods(self, document):
            return pods[: document["has"]]

    read = for_page(Cluster(Reads(), "ml", rest))
    job = smallest("PyTorchJob", "mnist") | {"has": 4}
    job["metadata"]["namespace"] = "ml"
    found = await read(job, KIND, 2)
    assert (list(found.found), found.left, found.advice) == (["worker-0", "worker-1"], 1, ())
    assert await read(job | {"has": 0}, KIND, 2) == ReplicaStacks({})


async def output_of(*lines: bytes) -> list[bytes]:
    rest = RestClient(Kubelet(b"".join(line + b"\n" for line in lines)))
    return await EphemeralContainers(rest).output(POD, {"name": "reader"}, 5)


async def test_a_process_with_as_many_threads_and_frames_as_are_printed_is_read():
    wide = a_process(stack_dump.MOST_THREADS, [FRAME] * stack_dump.MOST_FRAMES)
    assert len(wide) > 64 * 1024, "logs are cut there"
    (process,) = parse(await output_of(wide, b'{"left_out": 0}'), stack_dump.MOST_THREADS)
    assert [len(thread.frames) for thread in process.threads] == [stack_dump.MOST_FRAMES] * stack_dump.MOST_THREADS


async def test_of_output_that_another_program_has_printed_little_is_kept_and_shown():
    many = a_process(1, [["", "", 0]] * 100_000)
    long = [a_process(1, [["f" * 6000, f"/a{number}.py", number]], error="e" * 6000) for number in range(500)]
    output = await output_of(many, *long)
    tracemalloc.start()
    found = parse(output)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 1_000_000
    assert len(found) == stack_dump.MOST_PROCESSES
    for bound in ("MOST_PROCESSES", "MOST_FRAMES", "MOST_TEXT"):
        assert getattr(rank_stacks, bound) == getattr(stack_dump, bound)
    groups = rank_stacks.grouped(
        [rank for process in found for rank in rank_stacks.ranks_of("worker-0", [process])] * 2
    )
    assert len("".join(rank_stacks.lines(groups * 2, whole=True))) < 100_000
    assert rank_stacks.lines(groups * 2, whole=False)[-1] == f"… {len(groups) * 2 - rank_stacks.GROUPS} more groups"


@pytest.mark.parametrize(
    ("reason", "seconds", "error", "said"),
    [
        (
            "ErrImagePull",
            60,
            NoImage,
            "the image trainshed:9 of the ephemeral container cannot be pulled: ErrImagePull: why",
        ),
        ("ImagePullBackOff", 60, NoImage, "the image trainshed:9 of the ephemeral container cannot be pulled: "),
        (
            "CreateContainerConfigError",
            60,
            NotRun,
            "the ephemeral container cannot start: CreateContainerConfigError: why",
        ),
        ("ContainerCreating", 0, NotRun, "its ephemeral container has not ended within 0 s: "),
    ],
)
async def test_a_container_that_cannot_start_is_not_waited_for_and_all_replicas_have_one_reason(
    reason, seconds, error, said
):
    rest = RestClient(Kubelet(b"", {"waiting": {"reason": reason, "message": "why"}}))
    with pytest.raises(error, match=f"^{said}") as raised:
        await asyncio.wait_for(
            EphemeralContainers(rest).output(POD, {"name": "reader", "image": "trainshed:9"}, seconds), 5
        )
    assert type(raised.value) is error


def test_an_image_that_cannot_be_pulled_has_advice():
    target = Target({"metadata": {"namespace": "ml", "name": "mnist"}}, KIND, "")
    reader = Reader(RestClient(Kubelet(b"")), target, "trainshed:9", 60)
    (advice,) = reader.advice(iter([[], NoImage("not pulled"), NotRun("gone")]))
    assert advice.startswith("trainshed stacks --image, or the variable TRAINSHED_IMAGE")

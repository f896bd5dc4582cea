"""`trainshed stacks` reads what its container has printed, whole and within bounds."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import asynccontextmanager

from support.builders import a_pod
from trainshed import stack_dump
from trainshed.client.ephemeral_containers import EphemeralContainers
from trainshed.client.transport import Answer, RestClient
from trainshed.views import rank_stacks
from trainshed.views.rank_stacks import parse

POD = a_pod("worker-0")
FRAME = ["forward", "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", 1511]


def a_process(threads: int, frames: list, **fields: object) -> bytes:
    found = [{"name": f"T{number}", "main": number == 0, "frames": frames} for number in range(threads)]
    return json.dumps({"pid": 7, "LOCAL_RANK": "0", "threads": found} | fields).encode()


class Kubelet:
    """A transport to a server on which the container has ended at once, with this output."""

    def __init__(self, output: bytes) -> None:
        self.output = output

    async def exchange(self, request) -> Answer:
        if request.path.endswith("/log"):
            return Answer(200, self.output)
        ended = [{"name": "reader", "state": {"terminated": {"exitCode": 0}}}]
        pod = {"metadata": {"name": POD.name, "uid": POD.uid}, "status": {"ephemeralContainerStatuses": ended}}
        return Answer(200, json.dumps(pod).encode())

    @asynccontextmanager
    async def stream(self, request):
        async def pieces():
            yield self.output

        assert request.path.endswith("/log")
        yield Answer(200), pieces()


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

"""A log that is read on after an interruption: each line is there, and once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from trainshed.client.job_reader import JobReader
from trainshed.client.log_stream import LogStream

ONE, TWO, THREE, FOUR = (f"2026-01-01T12:00:00.00000000{digit}Z" for digit in (1, 2, 3, 4))


class Kubelet(JobReader):
    """A kubelet with these lines, of which it gives those of the second of `sinceTime` and later."""

    def __init__(self, *lines: str) -> None:
        self.kept = list(lines)

    async def log(self, namespace: str, pod: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        second = query.get("since", "")[: len("2026-01-01T12:00:00")]
        for line in [line for line in self.kept if line >= second]:
            yield line.encode()


async def read(stream: LogStream) -> list[bytes]:
    return [text async for _, text in stream.lines()]


async def test_lines_that_are_not_in_the_order_of_their_times_are_read_once():
    """A runtime stamps standard output and standard error apart, and writes the lines in the order of its locks."""
    kubelet = Kubelet(f"{ONE} first", f"{THREE} output", f"{TWO} error")
    stream = LogStream(kubelet, "ml", "mnist-worker-0", lambda last: {"since": last})
    assert await read(stream) == [b"first", b"output", b"error"]
    kubelet.kept.append(f"{FOUR} next")
    assert await read(stream) == [b"next"]
    assert await read(stream) == []

"""A log is cut into lines of a limited length, in linear time."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager

import pytest

from trainshed.client.transport import Answer, Path, RestClient

MOST = 64 * 1024
TIME = b"2026-01-01T12:00:00.5Z "


class Pieces:
    """A transport whose log comes in these pieces."""

    def __init__(self, pieces) -> None:
        self.pieces = pieces

    @asynccontextmanager
    async def stream(self, _request):
        async def pieces():
            for piece in self.pieces:
                yield piece

        yield Answer(200), pieces()


async def lines_of(*pieces: bytes, **query: str) -> list[bytes]:
    return [line async for line in RestClient(Pieces(pieces)).log(Path("/api/v1", "pods", "ml", "p", "log"), query)]


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ((b"a", b"b\n\nc", b"\n"), [b"ab", b"", b"c"]),
        ((b"a\nb",), [b"a", b"b"]),
        ((b"x" * MOST + b"\n",), [b"x" * MOST]),
        (
            (
                b"x" * MOST,
                b"yz\nend",
            ),
            [b"x" * MOST, b"yz", b"end"],
        ),
        ((b"x" * (MOST - 1) + "é".encode(),), [b"x" * (MOST - 1), "é".encode()]),
        ((b"\x80" * (MOST + 1),), [b"\x80" * (MOST - 3), b"\x80" * 4]),
    ],
)
async def test_a_line_is_cut_where_it_is_too_long_and_goes_on_as_the_next_one(pieces, lines):
    assert [bytes(line) for line in await lines_of(*pieces)] == lines


async def test_each_part_of_a_line_has_its_time():
    found = await lines_of(TIME, b"x" * (3 * MOST), b"\n", TIME + b"end\n", timestamps="true")
    assert [line.startswith(TIME) for line in found] == [True] * 5
    assert b"".join(line.removeprefix(TIME) for line in found) == b"x" * (3 * MOST) + b"end"


async def test_a_line_without_end_takes_linear_time():
    began = time.process_time()
    found = await lines_of(*[b"x" * 1024] * 16 * 1024)
    assert (len(found), {*map(len, found)}) == (256, {MOST})
    assert time.process_time() - began < 2, "it took many seconds in quadratic time"

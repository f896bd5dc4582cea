"""What PyTorch's debug server says of all ranks: where each of them is. Its protocol, and its answer in groups.

A program starts it by `torch.distributed.debug.start_debug_server`. Rank 0 listens for HTTP then, and asks the server
within each rank when it is asked itself; it waits a minute for those that do not answer. What Python's faulthandler
prints of each rank is in a page of HTML in which nothing is escaped. The shapes are those of torch 2.13.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from trainshed.api.foreign_text import one_line
from trainshed.api.signs import RankAt, StackGroup

from .stack_frames import MOST_FRAMES, MOST_TEXT, Frame, StacksError, grouped

#: The most bytes of an answer, and those of them for each pod of the job: a rank with many threads takes twenty
#: kilobytes.
MOST_BYTES, BYTES_OF_POD = 16 * 1024 * 1024, 512 * 1024
#: How an answer begins and ends.
OK, END = re.compile(rb"HTTP/1\.[01] 200 "), b"</section>"
#: What lines have that say something, none of the others is looked at; and the bytes of a line that are read.
MARK, LONGEST_LINE = re.compile(rb"<h2>Rank |hread 0x|  File "), 2 * 4096
#: The lines of an answer: whose the next ones are, that this rank does not answer, and its threads with their frames.
RANK = re.compile(r"\s*<h2>Rank (\d{1,9}): https?://\[?([^\s/\]]{1,253}?)\]?(?::\d{1,5})?/")
THREAD = re.compile(r"\s*(?:<pre>)?(?:Current thread|Thread) 0x")
FRAME_LINE = re.compile(r'  File "(.{1,4096})", line (\d{1,9}) in (.{1,600})')


class StacksQuery:
    """The client's side: send `opening`, then give `feed` what arrives, which raises `StacksError`.

    Of a job with `pods` an answer is as long as its ranks need, and not longer.
    """

    opening = b"GET /stacks HTTP/1.0\r\nHost: localhost\r\nAccept: text/html\r\n\r\n"

    def __init__(self, pods: int = 1) -> None:
        self._most = min(MOST_BYTES, BYTES_OF_POD * pods)
        self._received = bytearray()

    @property
    def done(self) -> bool:
        """Whether the answer is complete."""
        return self._received[-64:].rstrip().endswith(END)

    def feed(self, data: bytes) -> bytes:
        """Take what has arrived; nothing more is to be sent."""
        self._received += data
        if len(self._received) > self._most:
            raise StacksError(f"the answer has more than {self._most:,} bytes")
        return b""

    def answer(self) -> tuple[StackGroup, ...]:
        """Return where the ranks are, once it is complete or the stream has ended; raises `StacksError`."""
        head, _, page = bytes(self._received).partition(b"\r\n\r\n")
        if not OK.match(head):
            shown = one_line(head[:60].decode(errors="replace"))
            raise StacksError(f"it is not PyTorch's debug server, or has failed: it answers {shown!r}")
        if not self.done:
            raise StacksError("PyTorch's debug server has closed the connection before it answered in full")
        found = grouped(stacks(page))
        if not found:
            raise StacksError("what answers is not PyTorch's debug server: it names no ranks")
        return found


def stacks(page: bytes) -> Iterator[tuple[RankAt, tuple[Frame, ...]]]:
    """Yield each rank with the frames of its first thread, the innermost first; none if it has not answered.

    The thread with which a process began is the last one with frames that faulthandler prints.
    """
    rank: RankAt | None = None
    frames: list[Frame] = []
    thread_begins = False
    for line in _lines(page):
        if named := RANK.match(line):
            if rank:
                yield rank, tuple(frames)
            rank, frames, thread_begins = RankAt(int(named[1]), one_line(named[2], 63)), [], False
        elif THREAD.match(line):
            thread_begins = True
        elif found := FRAME_LINE.match(line):
            if thread_begins:
                frames, thread_begins = [], False
            if len(frames) < MOST_FRAMES:
                frames.append(Frame(found[3][:MOST_TEXT], found[1][-MOST_TEXT:], int(found[2])))
    if rank:
        yield rank, tuple(frames)


def _lines(page: bytes) -> Iterator[str]:
    """Yield the lines with a mark, without the entities of HTML as far as Python's parser reads them."""
    end = 0
    for mark in MARK.finditer(page):
        if mark.start() < end:
            continue  # the same line
        begin = page.rfind(b"\n", end, mark.start()) + 1
        end = (page.find(b"\n", mark.end()) + 1 or len(page) + 1) - 1
        line = page[begin : min(end, begin + LONGEST_LINE)].decode(errors="replace").rstrip()
        try:
            yield html.unescape(line)
        except ValueError:  # a number of thousands of digits
            yield line

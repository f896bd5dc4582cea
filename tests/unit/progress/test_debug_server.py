"""What PyTorch's debug server answers is read in bounds, whatever a program answers in its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.debug_server import HEAD, page
from trainshed.api.signs import RankAt, StackGroup
from trainshed.progress import debug_server
from trainshed.progress.debug_server import StacksQuery, stacks
from trainshed.progress.stack_frames import GROUPS, RANKS, StacksError, grouped

REDUCE = ("all_reduce (torch/distributed/distributed_c10d.py:3252)", "train (hanging_ranks.py:37)")
WAIT = StackGroup(2, (RankAt(0, "mnist-master-0"), RankAt(2, "mnist-worker-1")), *REDUCE, waits=True)
LATE = (RankAt(1, "mnist-worker-0"),)


def groups(page: bytes) -> tuple[StackGroup, ...]:
    """The groups of a page."""
    return grouped(stacks(page))


def asked(content: bytes) -> StacksQuery:
    """A query that has got this."""
    query = StacksQuery()
    assert query.feed(content) == b""
    return query


def a_rank(number: int, *frames: str, host: str = "vm") -> str:
    """What the page has about a rank, whose first thread has these frames."""
    lines = "\n".join(frames)
    return f"<h2>Rank {number}: http://{host}:1/handler/dump_traceback?</h2>\n<pre>Thread 0x1 (most\n{lines}\n</pre>\n"


def frame(function: str, path: str = "/app/a.py", line: int = 1) -> str:
    return f'  File "{path}", line {line} in {function}'


@pytest.mark.parametrize(
    ("name", "late"),
    [("stacks", StackGroup(1, LATE, "load_batch (hanging_ranks.py:25)")), ("silent", StackGroup(1, LATE))],
)
def test_ranks_are_grouped_by_where_they_are_those_that_wait_last(name, late):
    content = page(name)
    query = asked(content[:-40])
    assert not query.done
    query.feed(content[-40:])
    assert query.done
    assert query.answer() == (late, WAIT)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it answers ''"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "not PyTorch's debug server, or has failed: it answers 'SSH-2.0-OpenSSH_9.9'"),
        (b"HTTP/1.0 500 Exception: \x1b[2J\xff\r\n\r\n</section>", "it answers 'HTTP/1.0 500 Exception: �'"),
        (HEAD + b"<html>hello</section>", "it names no ranks"),
        (page("stacks")[:-40], "closed the connection before it answered in full"),
    ],
    ids=["nothing", "another program", "an error", "another page", "cut"],
)
def test_what_is_no_answer_is_an_error(content, words):
    with pytest.raises(StacksError, match=words.replace("(", r"\(")):
        asked(content).answer()


def test_an_answer_without_end_is_given_up(monkeypatch):
    monkeypatch.setattr(debug_server, "MOST_BYTES", 1000)
    query = asked(HEAD + b"x" * 900)
    with pytest.raises(StacksError, match="more than 1,000 bytes"):
        query.feed(b"x" * 100)


def test_an_answer_may_be_as_long_as_the_ranks_of_the_job_need():
    content = b"x" * (debug_server.BYTES_OF_POD + 1)
    assert StacksQuery(2).feed(content) == b""
    with pytest.raises(StacksError, match="more than 524,288 bytes"):
        StacksQuery(1).feed(content)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (a_rank(3, frame("\x1b[2Jf\u202eg")), ("fg (a.py:1)", "")),
        (a_rank(3, frame("f" * 500)), ("f" * 119 + "…", "")),
        (a_rank(3, *[frame("f", "/usr/lib/python3.11/x.py")] * 500, frame("g")), ("f (x.py:1)", "")),
        (a_rank(3, frame("f").replace('"', "&quot;")), ("f (a.py:1)", "")),
        (a_rank(3, "  File " + "x" * 100_000), ("", "")),
        (a_rank(3, frame("&#" + "1" * 5_000 + ";"), frame("f")), ("&#" + "1" * 117 + "…", "")),
        (a_rank(3), ("", "")),
    ],
    ids=["escapes", "a long name", "a deep stack", "escaped", "a long line", "a large number", "no frame"],
)
def test_frames_are_made_fit_to_be_shown(text, found):
    (group,) = groups(text.encode())
    assert (group.place, group.by, group.ranks) == (*found, (RankAt(3, "vm"),))


def test_the_thread_with_which_a_process_began_counts():
    text = a_rank(0, frame("worker"), "", "Thread 0x2 (most recent call first):", frame("main"))
    assert [group.place for group in groups(text.encode())] == ["main (a.py:1)"]


def test_of_many_ranks_some_are_kept():
    alone = [a_rank(number, frame(f"f{number}")) for number in range(500)]
    same = [a_rank(number, frame("g")) for number in range(500)]
    found = groups("".join(same + alone).encode())
    assert len(found) == GROUPS
    assert len(groups("".join(same).encode())[0].ranks) == RANKS
    assert groups("".join(same).encode())[0].count == 500


@given(
    st.lists(
        st.sampled_from([b"<h2>Rank 1: http://a:1/", b"Thread 0x1\n", b'  File "a", line 1 in b\n', b"\xff\0", b"\n"])
    )
)
def test_nothing_that_a_pod_answers_is_an_error_of_another_kind(parts):
    for group in groups(b"".join(parts)):
        assert f"{group.place}{group.by}{group.ranks[0].host}".isprintable()

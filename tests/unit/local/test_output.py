"""The output of replicas: whole lines with names before them, progress bars, logs, and failures on purpose."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.scripted_runtime import NoLogs
from trainshed.local.failure_injection import FailureInjector, parse
from trainshed.local.output import LONGEST, Output, harmless, printable


def a_pod(name: str = "job-worker-0", job: str = "job") -> dict:
    labels = {"training.kubeflow.org/job-name": job}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "main"}]}}


def printed(tmp_path, *chunks: bytes, **how) -> list[str]:
    lines: list[str] = []
    output = Output(tmp_path, **({"colour": False} | how), write=lines.append)
    for chunk in chunks:
        output.write(a_pod(), "main", chunk)
    output.end(a_pod(), "main")
    output.close()
    return lines


def test_lines_are_printed_as_a_whole(tmp_path):
    assert printed(tmp_path, b"ep", b"och 1\nepoch", b" 2\nend") == [
        "worker-0 | epoch 1",
        "worker-0 | epoch 2",
        "worker-0 | end",
    ]
    assert (tmp_path / "job-worker-0.log").read_bytes() == b"epoch 1\nepoch 2\nend"


def test_a_progress_bar_is_printed_now_and_then(tmp_path):
    chunks = [b"\r %d%%" % number for number in range(101)]
    assert printed(tmp_path, *chunks, b"\n") == ["worker-0 |  0%", "worker-0 |  100%"]


def test_a_line_that_is_too_long_is_printed_in_pieces_of_which_none_is_missing(tmp_path):
    digits = "".join(f"{number:09}," for number in range(25_000)).encode()
    lines = printed(tmp_path, *(digits[at : at + 65_536] for at in range(0, len(digits), 65_536)), b"\nafter\n")
    assert "".join(line.removeprefix("worker-0 | ") for line in lines[:-1]) == digits.decode()
    assert [len(line) - 11 for line in lines] == [LONGEST, LONGEST, 50_000, 5]


@pytest.mark.parametrize("end", ["", "\r"])
def test_of_a_long_line_with_carriage_returns_the_last_state_is_printed(tmp_path, end):
    states = [f"\r{number:09} of 20000" for number in range(20_000)]
    lines = printed(tmp_path, "".join(states).encode() + end.encode(), b"\n")
    assert lines == [f"worker-0 | {'0' * 4}19999 of 20000"] * 2


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([b"\xff\n"], "\ufffd"),
        (["ü".encode()[:1], "ü".encode()[1:] + b"\n"], "ü"),
        ([bytes([byte]) for byte in "loss 漢 👩".encode()], "loss 漢 👩"),
        (["👩".encode()[:2]], "\ufffd"),
        (["👩".encode()[:2], b"\n"], "\ufffd"),
    ],
)
def test_a_character_is_torn_only_if_the_replica_has_torn_it(tmp_path, chunks, text):
    assert printed(tmp_path, *chunks) == [f"worker-0 | {text}"]


RED, RESET = "\x1b[31m", "\x1b[0m"


@pytest.mark.parametrize(
    ("text", "plain", "coloured"),
    [
        ("loss\t0.1 ü 漢 👩\u200d💻", "loss\t0.1 ü 漢 👩\u200d💻", None),
        (f"{RED}red{RESET} plain", "red plain", f"{RED}red{RESET} plain{RESET}"),
        ("\x1b[38;2;1;2;3mrgb", "rgb", f"\x1b[38;2;1;2;3mrgb{RESET}"),
        ("\x1b[2J\x1b[1;1Hcleared", "cleared", None),
        ("\x1b]0;title\x07after", "after", None),
        ("\x1b]52;c;ZWNobyBoaQ==\x1b\\after", "after", None),
        ("\x1bP1$r0m\x1b\\after", "after", None),
        ("\x9b2Jafter\x9d0;t\x9cmore", "aftermore", None),
        (f"\x1b[{'1' * 5000}mdigits", "digits", None),
        (f"\x1b[{'1;' * 5000}mparameters", "parameters", None),
        ("a\x08b\x7f\x00\x1bcx", "abx", None),
        ("user\u202egnp.exe\u2066", "usergnp.exe", None),
        ("\x1b[?25l\x1b[>0q\x1b[6nq", "q", None),
        ("\x1b[\x1b[31m2J", "2J", f"\x1b[31m2J{RESET}"),
    ],
)
def test_what_acts_on_a_terminal_is_not_printed(text, plain, coloured):
    assert harmless(text) == plain
    assert harmless(text, colour=True) == (plain if coloured is None else coloured)
    assert printable(text) == " ".join(plain.replace("\u200d", "").split())


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b[]0;m2J\x07\\\x9b\x9d"))))
def test_no_text_acts_on_a_terminal(text):
    shown = re.sub(r"\x1b\[[0-9;:]*m", "", harmless(text, colour=True))
    assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u202e]", shown)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u202e]", printable(text))


def test_the_output_and_the_events_of_replicas_keep_their_prefixes(tmp_path):
    assert printed(tmp_path, b"\x1b[2K\x1b[1Ajob | Succeeded\x0bx\n") == ["worker-0 | job | Succeededx"]
    lines: list[str] = []
    Output(tmp_path, colour=False, write=lines.append).say("Failed: oh\njob | Succeeded\x1b[8m", "job")
    assert lines == ["job      | Failed: oh", "job      |   job | Succeeded"]


def test_only_some_replicas_are_printed(tmp_path):
    assert printed(tmp_path, b"hello\n", only=("worker-1",)) == []
    assert (tmp_path / "job-worker-0.log").read_bytes() == b"hello\n"


def test_a_container_that_prints_nothing_makes_prefixes_no_wider(tmp_path):
    pod, lines = a_pod() | {"metadata": a_pod()["metadata"] | {"uid": "uid"}}, []
    output = Output(tmp_path, colour=False, write=lines.append)
    for container in ("a-container-with-a-long-name", "main"):
        output.begin(pod, container)
    output.write(pod, "main", b"a line\n")
    output.end(pod, "a-container-with-a-long-name")
    output.close()
    assert lines == ["worker-0 | a line"]


def test_each_replica_has_a_colour(tmp_path):
    lines: list[str] = []
    output = Output(tmp_path, colour=True, write=lines.append)
    for name in ("job-worker-0", "job-worker-1"):
        output.write(a_pod(name), "main", b"x\n")
    output.close()
    assert lines[0].startswith("\x1b[36m")
    assert lines[1].startswith("\x1b[32m")


def test_with_several_jobs_the_job_is_named(tmp_path):
    assert printed(tmp_path, b"x\n", one_job=False) == ["job/worker-0 | x"]


@pytest.mark.parametrize("wanted", ["worker-0", "job/worker-0", "job-worker-0"])
def test_a_line_kills_a_replica_once(wanted):
    killed: list[str] = []
    injector = FailureInjector([parse(f"{wanted}@step 1$")], NoLogs(), killed.append)
    injector.write(a_pod("job-worker-1"), "main", b"step 1\n")
    injector.write(a_pod(), "main", b"step 10\nste")
    assert killed == []
    injector.write(a_pod(), "main", b"p 1\n")
    injector.write(a_pod(), "main", b"step 1\n")
    assert killed == ["job-worker-0"]


@pytest.mark.parametrize(
    ("output", "killed"),
    [
        ([("a", b"step"), ("b", b" 1\n")], []),
        ([("a", b"st"), ("b", b"step 1\n"), ("a", b"ep 1\n")], ["b-worker-0", "a-worker-0"]),
        ([("a", b"step 1"), ("a", None)], ["a-worker-0"]),
        ([("a", b"st"), ("a", None), ("a", b"ep 1\n")], []),
        ([("a", b"step 1" + b"x" * 200_000), ("a", b"\n")], []),
    ],
)
def test_lines_are_those_of_one_replica_of_one_job(output, killed):
    found: list[str] = []
    injector = FailureInjector([parse("worker-0@step 1")], NoLogs(), found.append)
    for job, chunk in output:
        pod = a_pod(f"{job}-worker-0", job)
        injector.end(pod, "main") if chunk is None else injector.write(pod, "main", chunk)
    assert found == killed


@pytest.mark.parametrize("text", ["worker-0", "worker-0@", "@5s", "worker-0@(", "Worker 0@5s"])
def test_a_failure_that_cannot_be_read_is_refused(text):
    with pytest.raises(ValueError, match="is not a"):
        parse(text)

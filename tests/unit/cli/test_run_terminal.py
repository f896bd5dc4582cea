"""`trainshed run` on a terminal: no text of a replica ends it, and a terminal that does not read holds no end up."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.local_runs import SOON, Machine, a_job

#: Seconds within which a run ends after Ctrl-C, with those of a busy machine.
ENDS = 20


class Terminal:
    """A run on a terminal of its own, with colours and a status line."""

    def __init__(self, machine: Machine, job: dict, **variables: str) -> None:
        self.shown = b""
        self._own, far = pty.openpty()
        words = [word for word in machine.command(job) if word != "--no-color"]
        variables = {**os.environ, "TERM": "xterm", "COLUMNS": "60", **variables}
        variables.pop("NO_COLOR", None)
        self.run = subprocess.Popen(words, stdin=far, stdout=far, stderr=far, env=variables, start_new_session=True)
        os.close(far)

    def read(self, text: str = "") -> None:
        """Read until the text is shown, or to the end."""
        end = time.monotonic() + SOON
        while not text or text.encode() not in self.shown:
            assert time.monotonic() < end, self.shown[-2000:]
            with contextlib.suppress(OSError):
                if not select.select([self._own], [], [], 0.2)[0]:
                    continue
                if chunk := os.read(self._own, 1 << 16):
                    self.shown += chunk
                    continue
            break  # the run has closed the terminal

    def end(self, *, close: bool = False) -> int:
        """Return the exit code of a run that ends soon, after its terminal was closed."""
        if close:
            os.close(self._own)
            self._own = os.open(os.devnull, os.O_RDONLY)
        try:
            return self.run.wait(timeout=ENDS)
        finally:
            self.run.kill()
            os.close(self._own)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("encoding", "script", "shown"),
    [
        ("utf-8", "printf 'a \\350\\252\\236 b\\n'", "a 語 b"),
        ("latin-1", "printf 'a \\350\\252\\236 b\\n'", "a ? b"),
        ("ascii", "printf 'a \\303\\251 b\\n'", "a ? b"),
        ("utf-8", "printf '\\033['; head -c 5000 /dev/zero | tr '\\0' 1; echo m digits", " digits"),
        ("utf-8", "head -c 5000 /dev/urandom; echo; printf 'c\\td\\n'", "c"),
    ],
)
def test_no_text_of_a_replica_ends_a_run_on_a_terminal(machine, encoding, script, shown):
    terminal = Terminal(machine, a_job(script), PYTHONIOENCODING=encoding)
    terminal.read()
    assert terminal.end() == 0, terminal.shown
    assert shown.encode(encoding) in terminal.shown
    assert b"State:     Succeeded" in terminal.shown


def test_the_state_of_the_jobs_is_below_the_lines_of_the_replicas_and_goes_at_the_end(machine):
    terminal = Terminal(machine, a_job("echo begun; sleep 2; echo done"))
    terminal.read()
    assert terminal.end() == 0
    states = re.findall(rb"\r\x1b\[K\x1b\[7m(.*?)\x1b\[0m", terminal.shown)
    assert any(b"job: Running" in state for state in states), terminal.shown
    assert all(len(state.decode()) < 60 for state in states)
    last = terminal.shown.rpartition(b"\x1b[7m")[2]
    assert b"\x1b[0m\r\x1b[K" in last


@pytest.mark.parametrize("signalled", [True, False])
def test_a_closed_terminal_ends_a_run_like_the_first_ctrl_c(machine, signalled):
    script = "trap 'sleep 2; echo saved; exit 0' TERM; while :; do echo step; sleep 0.1; done"
    terminal = Terminal(machine, a_job(script, terminationGracePeriodSeconds=20))
    terminal.read("step")
    if signalled:
        for _ in range(2):
            terminal.run.send_signal(signal.SIGHUP)
    assert terminal.end(close=True) == 130
    logs = [*machine.runs.glob("2*/logs/*.log")]
    assert [log.read_text().endswith("saved\n") for log in logs] == [True, True]
    assert not machine.remains()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_whose_terminal_does_not_read(machine, number):
    terminal = Terminal(machine, a_job("yes $(head -c 100 /dev/zero | tr '\\0' y)"))
    terminal.read("yyy")
    time.sleep(2)
    terminal.run.send_signal(number)
    assert terminal.end() == 130
    assert not machine.remains()

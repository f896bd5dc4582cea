"""A prediction that takes long ends at a signal, and so do its processes, however it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.predictions import pytorch_document
from support.user_client import eventually

#: Each of its runs meets thousands of failures, so that a portion of them takes minutes.
WORDS = ("--run-time", "3650d", "--mtbf", "1d", "--checkpoint-every", "1h", "--time-limit", "3650d")
pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="/proc says which children there are")


@pytest.mark.parametrize(
    ("ending", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_prediction_that_is_ended_leaves_no_process_and_no_traceback(tmp_path: Path, ending: int, code: int):
    (tmp_path / "job.json").write_text(json.dumps(pytorch_document(1)))
    command = (sys.executable, "-m", "trainshed", "whatif", "-f", str(tmp_path / "job.json"), *WORDS)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as predicting:
        children = Path(f"/proc/{predicting.pid}/task/{predicting.pid}/children")
        try:
            eventually(lambda: _predictors(children) >= 2, within=60)
            begun = children.read_text().split()
            predicting.send_signal(ending)
            said = predicting.communicate(timeout=60)[0]
            eventually(lambda: not any(map(_runs, begun)), within=60)
        finally:
            predicting.kill()
    assert predicting.returncode == code
    assert said.startswith("This takes about "), said
    assert said.count("\n") == 1 or code < 0, said


def _predictors(children: Path) -> int:
    """Return how many children predict: these have a second thread, which waits for the end of their parent."""
    tasks = [Path(f"/proc/{child}/task") for child in children.read_text().split()]
    return sum(len([*threads.iterdir()]) > 1 for threads in tasks)


def _runs(process: str) -> bool:
    stat = Path(f"/proc/{process}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False

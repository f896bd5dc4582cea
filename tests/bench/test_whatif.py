"""How long `trainshed whatif` takes for a thousand runs of a job of 64 replicas that trains for seven days."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.predictions import pytorch_document

pytestmark = pytest.mark.long
#: A node fails once in thirty days, so one of the job's every eleven hours.
WORDS = ("--run-time", "7d", "--mtbf", "30d", "--checkpoint-every", "10m", "--exit-code", "137", "-o", "json")


@pytest.mark.parametrize(
    ("restart", "policy"), [("ExitCode", {"backoffLimit": 3}), ("ExitCode", {}), ("OnFailure", {})]
)
def test_a_thousand_runs_of_64_replicas_in_two_processes(tmp_path: Path, restart: str, policy: dict) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(pytorch_document(64, restart=restart, policy=policy)))
    before, began = _cpu(), time.monotonic()
    command = (sys.executable, "-m", "trainshed", "whatif", "-f", str(file), *WORDS)
    found = subprocess.run(command, capture_output=True, check=True, env=os.environ)
    assert json.loads(found.stdout)[0]["histories"] == 1000
    print(f"\n{restart} {policy}: {time.monotonic() - began:.1f} s, of which CPU {_cpu() - before:.1f} s")


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

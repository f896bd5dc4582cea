"""What other tools make of a status, computed with the libraries that they use (hack/testbed/tools/evaluators)."""

from __future__ import annotations

import json
import subprocess

from testbed.binaries import own


def evaluate(tool: str, job: dict, argument: str = "") -> str:
    """What a tool says of a job: `gjson`, `selector`, `kstatus`, `cel` or `lua`, with its expression or script."""
    command = [str(own("evaluators", 2)), tool, argument]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()

"""What other tools make of a status, computed with the libraries that they use (hack/testbed/tools/evaluators)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from testbed.binaries import build
from testbed.places import HERE, alone, cache, digest

SOURCE = HERE / "tools" / "evaluators"


def evaluate(tool: str, job: dict, argument: str = "") -> str:
    """What a tool says of a job: `gjson`, `selector`, `kstatus`, `cel` or `lua`, with its expression or script."""
    command = [str(_program()), tool, argument]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _program() -> Path:
    version = digest("".join((SOURCE / name).read_text() for name in ("main.go", "go.mod", "go.sum")))
    path = cache() / "bin" / f"evaluators-{version}" / "evaluators"
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path.with_suffix(".lock")):
        if not path.exists():
            build(path, ".", SOURCE, "building evaluators (once; about 2 min on two cores)")
    return path

"""Steps that print their purpose and duration and, if they fail, the cause and a remedy."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

TAIL = 15


class StepFailed(Exception):
    """A step failed; the text names the step, its log and a remedy."""


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print the step and its duration to standard error: standard output is for results."""
    print(f"{what} ...", file=sys.stderr, flush=True)
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    if took > 1:
        print(f"{what}: {took:.0f} s", file=sys.stderr, flush=True)


def run(command: Sequence[str | Path], log: Path, hint: str = "", **options: object) -> None:
    """Run a command with its output in `log`; raises StepFailed with the log's last lines."""
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [str(word) for word in command]
    with log.open("ab") as output:
        output.write(f"$ {' '.join(words)}\n".encode())
        output.flush()
        result = subprocess.run(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL, check=False, **options)
    if result.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-TAIL:])
        advice = f"\nTry: {hint}" if hint else ""
        raise StepFailed(f"{' '.join(words[:4])} ... failed ({result.returncode}).\nLog: {log}\n{tail}{advice}")


def side_by_side(*tasks: Callable[[], object]) -> None:
    """Run independent tasks in parallel; raises the error of the first that failed."""
    with ThreadPoolExecutor(max(len(tasks), 1)) as pool:
        for begun in [pool.submit(task) for task in tasks]:
            begun.result()


def output(command: Sequence[str | Path], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """Return the output of a command; raises StepFailed with its error output."""
    words = [str(word) for word in command]
    result = subprocess.run(words, capture_output=True, text=True, check=False, env=env, cwd=cwd)
    if result.returncode:
        raise StepFailed(f"{' '.join(str(word) for word in command)} failed: {result.stderr.strip()[-2000:]}")
    return result.stdout


def fail(error: StepFailed) -> int:
    """Print why, for a person; the exit code."""
    print(f"\n{error}", file=sys.stderr)
    return 1

"""Steps that say what they do, how long it takes, and, if they fail, why and what to try."""

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
    """A step did not work; the text says which, where its log is, and what to try."""


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print what is being done, and the seconds that it took, to standard error: standard output is for answers."""
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
    """Run tasks that do not need each other at the same time; raises what the first of them that failed has raised."""
    with ThreadPoolExecutor(max(len(tasks), 1)) as pool:
        for begun in [pool.submit(task) for task in tasks]:
            begun.result()


def output(command: Sequence[str | Path], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """What a command prints; raises StepFailed with what it complained of."""
    words = [str(word) for word in command]
    result = subprocess.run(words, capture_output=True, text=True, check=False, env=env, cwd=cwd)
    if result.returncode:
        raise StepFailed(f"{' '.join(str(word) for word in command)} failed: {result.stderr.strip()[-2000:]}")
    return result.stdout


def fail(error: StepFailed) -> int:
    """Print why, for a person; the exit code."""
    print(f"\n{error}", file=sys.stderr)
    return 1

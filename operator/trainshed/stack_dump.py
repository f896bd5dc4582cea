"""Prints what Python processes are doing: the program of the container of `trainshed stacks`.

The container shares the process namespace of the one that trains, and all processes that it can see are meant. Pids
as arguments mean these processes and their descendants. Each process is a line of JSON, see `describe`; the
last line has `left_out`, the number of further processes. py-spy reads the stacks; nothing has to be in the image that
trains. Nothing is ever written to the processes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess  # nosec B404 - runs py-spy
import sys
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from trainshed.local.launcher.process_tree import by_parent, descendants, pids_of, process_of, processes

#: The most processes, threads of one, and frames of one thread that are printed, and the length of a text.
MOST_PROCESSES, MOST_THREADS, MOST_FRAMES, MOST_TEXT = 64, 32, 60, 300
#: The most bytes that are printed about all processes, whose author chooses the names of functions.
MOST_BYTES = 8 << 20
#: Processes that are read at a time, and the seconds after which one is given up.
AT_ONCE, SECONDS = 4, 15.0
#: The variables that say which rank a process is, as torchrun and JAX's and Paddle's launchers set them.
RANKS = ("RANK", "LOCAL_RANK")
#: The image that has this program and py-spy: that of this version.
IMAGE = f"ghcr.io/trainshed/trainshed:{version('trainshed')}"
NO_PROGRAM = "py-spy is not installed here: it comes with trainshed's image, or with: pip install 'trainshed[stacks]'"
NO_RIGHT = "the process may not be read: this needs root and the capability SYS_PTRACE"


def main() -> None:
    """Print all Python processes but this one, or those that the arguments name and their descendants."""
    found = list(python_processes({*map(int, sys.argv[1:])}))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        left, printed = MOST_BYTES, 0
        for text in pool.map(lambda pid: json.dumps(describe(pid)), found[:MOST_PROCESSES]):
            left -= len(text)
            if left >= 0:
                write(text)
                printed += 1
    write(json.dumps({"left_out": len(found) - printed}))


def write(line: str) -> None:
    """Print a line at once: what is there counts if the program is ended."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def python_processes(among: Collection[int] = ()) -> Iterator[int]:
    """Yield the pids of all Python processes but this one and its parent, or of some and their descendants."""
    known = processes()
    tree = by_parent(known)
    meant = {*among, *chain.from_iterable(descendants(pid, tree) for pid in among)} if among else {*known}
    return (pid for pid in sorted(meant - {os.getpid(), os.getppid()}) if is_python(pid))


def is_python(pid: int) -> bool:
    """Return whether a process runs Python: its program is called so, or it has loaded the library."""
    folder = Path(f"/proc/{pid}")
    with suppress(OSError):
        if (folder / "exe").readlink().name.startswith("python"):
            return True
        return "libpython" in (folder / "maps").read_text(errors="replace")
    return False


def describe(pid: int) -> dict[str, Any]:
    """Return pid, parent, command and ranks of a process, and its threads, or the error why there are none.

    A thread has a name, whether the process began with it, and frames, the innermost first: each is a function,
    a path and a line.
    """
    folder = Path(f"/proc/{pid}")
    process = process_of(pid)
    known: dict[str, Any] = {"pid": pid, "parent": process.parent if process else 0}
    with suppress(OSError):
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        known["command"] = " ".join(words).strip()[:MOST_TEXT]
        variables = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
        pairs = dict(variable.partition("=")[::2] for variable in variables)
        known |= {name: pairs[name][:MOST_TEXT] for name in RANKS if name in pairs}
    try:
        return known | {"threads": threads(pid)}
    except (OSError, RuntimeError) as error:
        return known | {"error": str(error)[:MOST_TEXT]}


def threads(pid: int) -> list[dict[str, Any]]:
    """Return the threads of a Python process, the first one first; raises OSError and RuntimeError."""
    places = (os.environ.get("PATH", ""), str(Path(sys.executable).parent))
    program = shutil.which("py-spy", path=os.pathsep.join(places))
    if program is None:
        raise RuntimeError(NO_PROGRAM)
    command = (program, "dump", "--json", "--pid", str(pid))
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)  # noqa: S603 # nosec B603 - its words are fixed
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the stack could not be read within {SECONDS:.0f} s") from None
    if done.returncode:
        errors = done.stderr.decode(errors="replace")
        raise RuntimeError(NO_RIGHT if "ermission denied" in errors.lower() else " ".join(errors.split()))
    try:
        found = [_thread(pid, thread) for thread in json.loads(done.stdout)]
    except (ValueError, KeyError, TypeError) as error:
        raise RuntimeError(f"py-spy printed something else than stacks: {error}") from error
    return sorted(found, key=lambda thread: not thread["main"])[:MOST_THREADS]


def _thread(pid: int, thread: dict[str, Any]) -> dict[str, Any]:
    frames = [
        (str(item["name"])[:MOST_TEXT], str(item["filename"])[:MOST_TEXT], item["line"]) for item in thread["frames"]
    ]
    name = str(thread["thread_name"] or "")[:MOST_TEXT]
    main = thread["os_thread_id"] in (pid, *pids_of(pid)[-1:]) or name == "MainThread"
    return {"name": name, "main": main, "frames": frames[:MOST_FRAMES]}


if __name__ == "__main__":
    main()

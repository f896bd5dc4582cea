"""A process that has imported the operator already, and forks one at each order: what starts is the production code.

Orders are lines of JSON on the standard input: their `number`, the `words` of the command line, the `log` to write to,
and `constants`, dotted names of numbers that this life has otherwise. The answers are lines with the `pid` of an order,
and with its `code` once it has ended. When the orders end, so do all that are left.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
from importlib import import_module

import trainshed.controller.manager  # noqa: F401 - loaded once, for all processes
from trainshed.__main__ import main

Order = dict


def serve() -> None:
    """Take orders until there are no more."""
    alive: set[int] = set()

    def reap(*_: object) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                alive.discard(found[0])
                say(pid=found[0], code=os.waitstatus_to_exitcode(found[1]))

    signal.signal(signal.SIGCHLD, reap)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if not pid:
            live(order)
        alive.add(pid)
        say(number=order["number"], pid=pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    for pid in tuple(alive):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def live(order: Order) -> None:
    """Be an operator, in a process of its own, and end with it."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for there, here in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(there, here)
        for name, value in order.get("constants", {}).items():
            module, _, constant = name.rpartition(".")
            setattr(import_module(module), constant, value)
        sys.argv = ["trainshed", "operator", *order["words"]]
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def say(**words: int) -> None:
    """One line, at once and whole."""
    os.write(1, json.dumps(words).encode() + b"\n")


if __name__ == "__main__":
    serve()

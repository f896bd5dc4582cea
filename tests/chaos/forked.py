"""Operators that are forked from a process that has imported the operator already: they start within milliseconds."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module

from testbed.processes import die_with_parent

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["trainshed.__main__", "trainshed.controller.manager"])


class Forked:
    """One such process, with the interface of `subprocess.Popen`.

    `constants` are dotted names of numbers in the operator's modules, with other values.
    """

    def __init__(self, words: tuple[str, ...], log: str, constants: Mapping[str, float]) -> None:
        self._process = CONTEXT.Process(target=_run, args=(words, log, dict(constants)), daemon=True)
        self._process.start()
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """The exit code once it has ended, negative for a signal."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Wait until it ends; its exit code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("operator", timeout)
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is alive; the process that forked it learns of its end before this one."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def preload() -> None:
    """Wait until the process that forks has imported the operator."""
    process = CONTEXT.Process(target=os.getpid)
    process.start()
    process.join()


def _run(words: tuple[str, ...], log: str, constants: Mapping[str, float]) -> None:
    die_with_parent()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    for name, value in constants.items():
        module, _, constant = name.rpartition(".")
        setattr(import_module(module), constant, value)
    sys.argv = ["trainshed", "operator", *words]
    import_module("trainshed.__main__").main()

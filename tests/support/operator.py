"""The operator as a process of its own, as a user would start it outside the cluster."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from testbed.ports import free_port


class Operator:
    """`python -m trainshed operator` against a kubeconfig; its log is a file that a test can read."""

    def __init__(self, kubeconfig: Path, folder: Path, *flags: str) -> None:
        self.kubeconfig = kubeconfig
        self.log = folder / "operator.log"
        self.health, self.metrics = self._ports()
        self.program: tuple[str, ...] = (sys.executable, "-m", "trainshed")
        self.environment: dict[str, str] = {}
        self._flags = flags
        self._process: subprocess.Popen | None = None

    def start(self, *, wait: bool = True) -> Operator:
        """Start it, and wait until it is ready; if it never is, it is killed."""
        self._process = self._launched()
        try:
            if wait:
                self.wait_until_ready()
        except AssertionError:
            self.kill()
            raise
        return self

    def wait_until_ready(self, within: float = 120) -> None:
        """Return once /readyz succeeds."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            assert self._process is not None
            assert self._process.poll() is None, self.log.read_text()[-3000:]
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/readyz", timeout=2):
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"the operator was not ready within {within} s:\n{self.log.read_text()[-3000:]}")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def ended(self) -> int:
        """Wait until it ends; its exit code."""
        assert self._process is not None
        while (code := self._process.poll()) is None:
            await asyncio.sleep(0.01)
        return code

    def wait_until_over(self) -> int:
        """Wait until it exits by itself; return its exit code."""
        assert self._process is not None
        return self._process.wait(120)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop it; its exit code."""
        return self._end(signal.SIGTERM)

    def served(self) -> str:
        """The text of /metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=5) as answer:
            return answer.read().decode()

    def complaints(self) -> list[str]:
        """Return the lines of its log that are errors, each with up to 40 lines that follow."""
        unwanted = "Traceback|never retrieved|never awaited|unhandled|please report"
        text = self.log.read_text(errors="replace")
        return re.findall(rf"^.*(?:{unwanted}).*(?:\n.+){{0,40}}", text, re.MULTILINE)

    def _ports(self) -> tuple[int, int]:
        return free_port(), free_port()

    def _launched(self) -> subprocess.Popen:
        endpoints = (
            f"--health-probe-bind-address=127.0.0.1:{self.health}",
            f"--metrics-bind-address=127.0.0.1:{self.metrics}",
        )
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*self.program, "operator", "--kubeconfig", str(self.kubeconfig), *endpoints, *self._flags],
                stdout=log,
                stderr=log,
                env=os.environ | {"PYTHONUNBUFFERED": "1"} | self.environment,
            )

    def _end(self, how: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(how)
        return self._process.wait(30)


class Operators:
    """The operators of one test, each with a folder of its own below `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begun: list[Operator] = []

    def begin(
        self, kubeconfig: Path, *flags: str, program: tuple[str, ...] = (), wait: bool = True, **environment: str
    ) -> Operator:
        """One more, with another program if one is named, and with variables."""
        folder = self._folder / f"operator-{len(self._begun)}"
        folder.mkdir()
        operator = Operator(kubeconfig, folder, *flags)
        operator.program, operator.environment = program or operator.program, environment
        self._begun.append(operator)
        return operator.start(wait=wait)

    def end(self) -> None:
        """Kill those that still run."""
        for operator in self._begun:
            if operator.alive:
                operator.kill()

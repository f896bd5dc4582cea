"""The operator as a process of its own, as a user would start it outside the cluster."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path


class Operator:
    """`python -m trainshed operator` against a kubeconfig; its log is a file that a test can read."""

    def __init__(self, kubeconfig: Path, folder: Path, *flags: str) -> None:
        self.kubeconfig = kubeconfig
        self.log = folder / "operator.log"
        self.health, self.metrics = _free_port(), _free_port()
        self._flags = flags
        self._process: subprocess.Popen | None = None

    def start(self, *, wait: bool = True) -> Operator:
        """Start it, and wait until it says that it is ready."""
        command = [sys.executable, "-m", "trainshed", "operator", "--kubeconfig", str(self.kubeconfig)]
        doors = [
            f"--health-probe-bind-address=127.0.0.1:{self.health}",
            f"--metrics-bind-address=127.0.0.1:{self.metrics}",
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *doors, *self._flags], stdout=log, stderr=log, env=os.environ | {"PYTHONUNBUFFERED": "1"}
            )
        if wait:
            self.wait_until_ready()
        return self

    def wait_until_ready(self, within: float = 30) -> None:
        """Return once /readyz says so."""
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
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def wait_until_over(self, within: float = 30) -> int:
        """Wait until it ends by itself; its exit code."""
        assert self._process is not None
        return self._process.wait(within)

    def kill(self) -> None:
        """End it without a warning."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        return self._end(signal.SIGTERM)

    def served(self) -> str:
        """What /metrics says now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=5) as answer:
            return answer.read().decode()

    def complaints(self) -> list[str]:
        """The lines of its log that no operator should write."""
        wanted = ("Traceback", "Task exception was never retrieved", "never awaited", "unhandled")
        return [line for line in self.log.read_text().splitlines() if any(word in line for word in wanted)]

    def _end(self, how: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(how)
        return self._process.wait(30)


def _free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]

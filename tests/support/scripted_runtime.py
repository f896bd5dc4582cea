"""A runtime for the kubelet of local runs whose containers do what a test says."""

from __future__ import annotations

import asyncio
import signal
from datetime import datetime

from trainshed.local.runtimes.protocol import ContainerSpec, SandboxSpec, StartFailed


class ScriptedContainer:
    """Implements `trainshed.local.runtimes.protocol.RuntimeContainer`; ends when the test or a signal says so."""

    def __init__(self, pod: str, spec: ContainerSpec, *, stubborn: bool) -> None:
        self.pod = pod
        self.spec = spec
        self.output = asyncio.StreamReader()
        self.signals: list[int] = []
        self.reason = ""
        self.ended_at: datetime | None = None
        self._stubborn = stubborn
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def end(self, code: int, text: str = "") -> None:
        """End with this exit code, after this output."""
        if not self._code.done():
            self.output.feed_data(text.encode())
            self.output.feed_eof()
            self._code.set_result(code)

    async def wait(self) -> int:
        return await asyncio.shield(self._code)

    def signal(self, number: int) -> None:
        self.signals.append(number)
        if number == signal.SIGKILL or not self._stubborn:
            self.end(128 + number)


class ScriptedSandbox:
    """Implements `trainshed.local.runtimes.protocol.Sandbox`."""

    def __init__(self, runtime: ScriptedRuntime, spec: SandboxSpec) -> None:
        self._runtime = runtime
        self._spec = spec
        self.address = "198.18.0.9"

    async def start(self, spec: ContainerSpec) -> ScriptedContainer:
        return self._runtime.start(self._spec.name, spec)

    async def remove(self) -> None:
        await asyncio.sleep(self._runtime.removal)
        self._runtime.removed.append(self._spec.name)


class ScriptedRuntime:
    """Implements `trainshed.local.runtimes.protocol.Runtime`; `started` are all containers, in order.

    A `stubborn` runtime has containers that ignore SIGTERM. A container in `missing` cannot be started, one in
    `immediate` succeeds at once. The removal of a pod's sandbox takes `removal` seconds.
    """

    description = "scripted"
    problem = ""

    def __init__(
        self,
        *,
        stubborn: bool = False,
        missing: tuple[str, ...] = (),
        immediate: tuple[str, ...] = (),
        removal: float = 0.0,
    ) -> None:
        self.started: list[ScriptedContainer] = []
        self.removed: list[str] = []
        self.removal = removal
        self._stubborn = stubborn
        self._missing = missing
        self._immediate = immediate

    def running(self, pod: str, container: str = "") -> ScriptedContainer | None:
        """Return the container of a pod that was started last, if it runs."""
        found = [item for item in self.started if item.pod == pod and container in ("", item.spec.name)]
        return found[-1] if found and not found[-1]._code.done() else None

    def start(self, pod: str, spec: ContainerSpec) -> ScriptedContainer:
        if spec.name in self._missing:
            raise StartFailed(f'exec: "{spec.name}": No such file or directory')
        self.started.append(ScriptedContainer(pod, spec, stubborn=self._stubborn))
        if spec.name in self._immediate:
            self.started[-1].end(0)
        return self.started[-1]

    async def open(self, hosts) -> None:
        pass

    async def create_sandbox(self, spec: SandboxSpec) -> ScriptedSandbox:
        return ScriptedSandbox(self, spec)

    async def close(self) -> None:
        pass


class NoLogs:
    """Implements `trainshed.local.runtimes.protocol.LogSink`: keeps the output of all containers in `text`."""

    def __init__(self) -> None:
        self.text = b""

    def begin(self, pod, container: str) -> None:
        pass

    def write(self, pod, container: str, chunk: bytes) -> None:
        self.text += chunk

    def end(self, pod, container: str) -> None:
        pass

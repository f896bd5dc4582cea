"""A line to a server that is slow, thin, dead or led elsewhere: bytes pass as they are, TLS and all."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Self, TypeVar

import yaml

T = TypeVar("T")
#: Bytes that are read at once.
PIECE = 16384


class Relay:
    """Listens on a port of its own and passes on to `target`.

    Everything arrives `delay` seconds late, and at most `rate` bytes a second pass both ways together, unless it is 0.
    While it is `frozen` nothing passes, and nothing is lost.
    """

    def __init__(self, target: int, *, delay: float = 0, rate: float = 0) -> None:
        self.target = target
        self.delay = delay
        self.rate = rate
        self.frozen = False
        self.passed = 0
        self._free = 0.0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._connected, sock=self._socket))
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def cut(self) -> None:
        """Break all connections."""
        self._loop.call_soon_threadsafe(lambda: [writer.transport.abort() for writer in self._writers])

    def kubeconfig(self, whole: Path, folder: Path, host: str = "127.0.0.1") -> Path:
        """A kubeconfig like that one, but by way of this line."""
        config = yaml.safe_load(whole.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://{host}:{self.port}"
        path = folder / "relayed.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def _call(self, what: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    async def _end(self) -> None:
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.1)  # what was aborted is closed at the next turn of the loop

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
            ends.add(far_writer)
            self._writers |= ends
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass  # nobody is there, or it is all over: the caller sees that at once
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        arrival = asyncio.create_task(self._deliver(under_way, writer))
        with contextlib.suppress(OSError):
            while piece := await reader.read(PIECE):
                under_way.put_nowait((self._loop.time() + self.delay, piece))
        under_way.put_nowait((self._loop.time() + self.delay, b""))
        await arrival

    async def _deliver(self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, piece = await under_way.get()
                if self.rate:
                    self._free = max(self._free, self._loop.time()) + len(piece) / self.rate
                    due = max(due, self._free)
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                while self.frozen:
                    await asyncio.sleep(0.05)
                if not piece:
                    writer.close()
                    return
                writer.write(piece)
                self.passed += len(piece)
                await writer.drain()

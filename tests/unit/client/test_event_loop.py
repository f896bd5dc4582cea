"""Only the event loop closes a connection: a descriptor closed twice may be another one. All timers are real."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct

import pytest

from trainshed.event_loop import EventLoop

#: Closing sends a reset immediately.
RESET = struct.pack("ii", 1, 0)


def connected(*, lost: bool) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection; the first one is lost, as TCP reports it, or not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    near.setblocking(False)
    if lost:
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        far.close()
    return near, far


async def hand_over(near: socket.socket, *, tls: bool) -> asyncio.Transport:
    """Hand a socket over to the event loop."""
    options = {"ssl": ssl.create_default_context(), "server_hostname": "localhost"} if tls else {}
    loop = asyncio.get_running_loop()
    return (await loop.create_connection(asyncio.Protocol, sock=near, **options))[0]


def test_a_connection_that_is_lost_in_its_handshake_is_no_longer_the_sockets():
    near, _ = connected(lost=True)
    with asyncio.Runner(loop_factory=EventLoop) as runner, pytest.raises(ConnectionResetError):
        runner.run(hand_over(near, tls=True))
    assert near.fileno() == -1


@pytest.mark.parametrize("lost", [False, True])
def test_an_established_connection_is_detached_from_the_socket(lost: bool):
    async def go() -> None:
        transport = await hand_over(near, tls=False)
        assert near.fileno() == -1
        transport.write(b"well")
        assert lost or await asyncio.to_thread(far.recv, 4) == b"well"
        transport.close()

    near, far = connected(lost=lost)
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(go())
    far.close()


def test_a_connection_without_a_socket_is_made_as_usual():
    async def go() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(asyncio.Protocol, *server.getsockname())
            transport.close()

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(go())


@pytest.mark.parametrize("delay", [-1, 0, 0.0004, 0.1])
def test_what_is_due_at_once_has_a_timer_too(delay):
    async def story() -> None:
        loop = asyncio.get_running_loop()
        run, begun = asyncio.Event(), loop.time()
        timers = loop.call_later(delay, run.set), loop.call_at(loop.time() + delay, run.set)
        assert all(begun <= timer.when() <= loop.time() + 0.2 for timer in timers)
        timers[0].cancel()
        async with asyncio.timeout(60):
            await run.wait()

    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(story())

"""A port of a pod is reached by way of the API server, with bounds on what it answers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import aiohttp
import pytest

from support.debug_server import RECORDED, DebugServer, page
from support.ras_server import RasServer, answer, counts
from trainshed.client import Forbidden, NotFound, Unavailable, port_forward
from trainshed.client.credentials import Credentials
from trainshed.client.port_forward import PortForward
from trainshed.progress.debug_server import StacksQuery
from trainshed.progress.nccl_ras import PORT, Query, TextOnly

from .port_forwards import forwarding

POD = ("ml", "mnist-worker-0")
NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
#: Large enough for several frames.
LARGE = answer(counts(*range(200)))


@pytest.fixture
def ras() -> Iterator[RasServer]:
    """Yield a RAS on a port of this machine."""
    with RasServer(("127.0.0.1", 0), lambda: LARGE) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def ask(url: str, seconds: float = 10.0, **credentials) -> Query:
    """A query of the RAS in a pod."""
    query = Query()
    await PortForward(Credentials(url, **credentials)).converse(POD, PORT, query, seconds)
    return query


async def test_the_ras_of_a_pod_is_asked_through_the_api_server(ras):
    async with forwarding(ras.server_address) as (server, url):
        query = await ask(url, token="t")
    assert len(query.answer(0.0).communicators[0].ranks) == 200
    assert server.asked == [("/api/v1/namespaces/ml/pods/mnist-worker-0/portforward?ports=28028", "Bearer t")]
    assert ras.asked == ["client protocol 2", "timeout 5", "set format json", "verbose status"]


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@pytest.fixture(params=["recorded", pytest.param("torch", marks=NEEDS_TORCH)])
def debug_address(request) -> Iterator[tuple[str, int]]:
    """Yield where PyTorch's debug server listens on this machine: a double, or if torch is installed the real one."""
    if request.param == "recorded":
        with DebugServer(page("stacks")) as server:
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            yield server.server_address
            server.shutdown()
        return
    ports = [str(free_port()) for _ in range(2)]
    with subprocess.Popen((sys.executable, RECORDED / "hanging_ranks.py", *ports), process_group=0) as ranks:
        time.sleep(30)  # until all ranks hang
        yield ("127.0.0.1", int(ports[0]))
        os.killpg(ranks.pid, signal.SIGKILL)


async def test_the_debug_server_of_pytorch_is_asked_through_the_api_server(debug_address):
    query = StacksQuery()
    async with forwarding(debug_address) as (server, url):
        await PortForward(Credentials(url)).converse(POD, 25999, query, 10.0)
    late, waiting = query.answer()
    assert ([one.rank for one in late.ranks], late.place) == ([1], "load_batch (hanging_ranks.py:25)")
    assert (waiting.count, waiting.waits, waiting.by) == (2, True, "train (hanging_ranks.py:37)")
    assert server.asked[0][0].endswith("/pods/mnist-worker-0/portforward?ports=25999")


async def test_an_answer_in_very_many_pieces_is_given_up(ras, monkeypatch):
    """Each takes the event loop as long as a large one."""
    monkeypatch.setattr(port_forward, "MOST_FRAMES", 10)
    async with forwarding(ras.server_address) as (_, url):
        with pytest.raises(Unavailable, match="port 28028 of pod mnist-worker-0 answers in more than 10 pieces"):
            await ask(url)


async def test_an_old_nccl_is_recognised(ras):
    ras.version = "2.26.2"
    async with forwarding(ras.server_address) as (_, url):
        query = await ask(url)
    with pytest.raises(TextOnly, match=r"2\.26\.2"):
        query.answer(0.0)


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (403, Forbidden, "no right to get and create it"),
        (404, NotFound, "no pod mnist-worker-0"),
        (401, Unavailable, "does not accept the credentials"),
        (500, Unavailable, "500"),
    ],
)
async def test_a_refusal_is_an_error_of_the_api(ras, status, kind, words):
    async with forwarding(ras.server_address) as (server, url):
        server.refusals.append(status)
        with pytest.raises(kind, match=words):
            await ask(url)


async def test_a_rejected_token_is_read_again(ras, tmp_path: Path):
    (tmp_path / "token").write_text("t")
    async with forwarding(ras.server_address) as (server, url):
        server.refusals.append(401)
        query = await ask(url, token_file=str(tmp_path / "token"))
    assert query.done
    assert len(server.asked) == 2


async def test_a_port_on_which_nothing_listens_is_said():
    async with forwarding(("127.0.0.1", 1)) as (_, url):
        with pytest.raises(Unavailable, match=r"^port 28028 of pod mnist-worker-0: connection refused$"):
            await ask(url)


async def test_why_a_port_is_not_reached_is_read_though_the_server_has_closed_the_connection(monkeypatch):
    async def closed(*_arguments: object) -> None:
        raise ConnectionResetError("Cannot write to closing transport")

    monkeypatch.setattr(aiohttp.ClientWebSocketResponse, "send_bytes", closed)
    async with forwarding(("127.0.0.1", 1)) as (_, url):
        with pytest.raises(Unavailable, match="connection refused"):
            await ask(url)


async def test_a_port_that_does_not_answer_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with forwarding(silent.getsockname()) as (_, url):
            with pytest.raises(Unavailable, match="not answered within 0 s"):
                await ask(url, seconds=0.3)


async def test_a_server_that_is_not_there_is_an_error():
    with pytest.raises(Unavailable, match="pods/portforward"):
        await ask("http://127.0.0.1:1")

"""The HTTP endpoints report health, readiness and metrics."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import aiohttp
import pytest

from support.virtual_time import in_virtual_time
from testbed.ports import free_port
from trainshed.controller.health import MAX_CONNECTIONS, METRICS_AGE, HealthServer, LoopLagMonitor


def free_address() -> str:
    return f"127.0.0.1:{free_port()}"


async def ask(address: str, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{address}{path}") as answer:
        return answer.status, await answer.text()


async def test_the_endpoints_report_health_readiness_and_metrics():
    health, metrics = free_address(), free_address()
    problems = ["the cache of pods has not synced yet"]
    monitor = LoopLagMonitor()
    server = HealthServer(monitor, lambda: problems[-1], lambda: b"metrics 1\n")
    server.bind(health, metrics)
    await server.serve()
    try:
        assert await ask(health, "/readyz") == (503, "the cache of pods has not synced yet\n")
        problems.append("")
        assert await ask(health, "/readyz") == (200, "ok\n")
        assert await ask(health, "/healthz") == (200, "ok\n")
        for second in range(8):
            monitor.record(second, second - 4)
        assert await ask(health, "/healthz") == (500, "the event loop lagged by 32 s in the last 60 s\n")
        assert await ask(metrics, "/metrics") == (200, "metrics 1\n")
        assert (await ask(metrics, "/healthz"))[0] == 404
    finally:
        await server.close()
    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(health, "/healthz")


async def test_metrics_are_computed_once_a_second_however_many_ask():
    metrics, computed = free_address(), []
    server = HealthServer(LoopLagMonitor(), lambda: "", lambda: computed.append(1) or b"m 1\n")
    server.bind("", metrics)
    await server.serve()
    try:
        assert [await ask(metrics, "/metrics") for _ in range(20)] == [(200, "m 1\n")] * 20
        assert len(computed) <= 2
        await asyncio.sleep(METRICS_AGE)
        await ask(metrics, "/metrics")
        assert len(computed) >= 2
    finally:
        await server.close()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    "sent", [b"", b"GET /healthz HTTP/1.1\r\nX: ", b"GET /healthz HTTP/1.1\r\nContent-Length: 9\r\n\r\n"]
)
async def test_many_connections_leave_room_for_a_probe(monkeypatch, sent):
    monkeypatch.setattr("trainshed.controller.health.MAX_CONNECTION_SECONDS", 1)
    health = free_address()
    server = HealthServer(LoopLagMonitor(), lambda: "", lambda: b"")
    server.bind(health, "")
    await server.serve()
    files = open_files()
    held = []
    try:
        for _ in range(2 * MAX_CONNECTIONS):
            held.append(await asyncio.open_connection(*health.split(":")))
            held[-1][1].write(sent)
        assert await asyncio.wait_for(ask(health, "/healthz"), 1) == (200, "ok\n")
        opened = open_files() - files - len(held)
        assert opened <= MAX_CONNECTIONS + 5
        await asyncio.sleep(1.5)
        assert open_files() - files - len(held) <= 1
    finally:
        for _, writer in held:
            writer.close()
        await server.close()


async def test_remarks_follow_the_ok_of_readyz():
    health = free_address()
    server = HealthServer(LoopLagMonitor(), lambda: "", lambda: b"", lambda: "CRDs not installed: tfjobs")
    server.bind(health, "")
    await server.serve()
    try:
        assert await ask(health, "/readyz") == (200, "ok\nCRDs not installed: tfjobs\n")
    finally:
        await server.close()


@pytest.mark.parametrize("address", ["", "0"])
async def test_an_empty_address_disables_an_endpoint(address):
    server = HealthServer(LoopLagMonitor(), lambda: "", lambda: b"")
    server.bind(address, address)
    await server.serve()
    assert server._runners == []
    await server.close()


def has_ipv6() -> bool:
    """Return whether the machine has an IPv6 loopback address."""
    try:
        with socket.socket(socket.AF_INET6) as door:
            door.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="the machine has no IPv6")
async def test_an_endpoint_can_have_an_ipv6_address():
    address = f"[::1]:{free_port()}"
    server = HealthServer(LoopLagMonitor(), lambda: "", lambda: b"metrics 1\n")
    server.bind("0", address)
    await server.serve()
    try:
        assert await ask(address, "/metrics") == (200, "metrics 1\n")
    finally:
        await server.close()


async def test_the_error_names_a_host_that_is_not_local():
    server = HealthServer(LoopLagMonitor(), lambda: "", lambda: b"")
    with pytest.raises(OSError, match=r"cannot listen on no-such-host\.invalid:8080: "):
        server.bind("no-such-host.invalid:8080", "0")
    await server.close()


async def test_an_address_that_is_in_use_is_named():
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        server = HealthServer(LoopLagMonitor(), lambda: "", lambda: b"")
        with pytest.raises(OSError, match=str(door.getsockname()[1])):
            server.bind(f"127.0.0.1:{door.getsockname()[1]}", "")
        await server.close()


async def test_a_blocked_event_loop_is_measured():
    monitor = LoopLagMonitor()
    task = asyncio.create_task(monitor.run())
    await asyncio.sleep(0.01)
    time.sleep(0.6)
    await asyncio.sleep(0.01)
    assert monitor.max_lag > 0.2
    task.cancel()


def test_an_idle_event_loop_has_no_lag():
    async def story():
        monitor = LoopLagMonitor()
        task = asyncio.create_task(monitor.run())
        await asyncio.sleep(10)
        assert monitor.max_lag == 0
        task.cancel()

    in_virtual_time(story())


@pytest.mark.fault("J15")
async def test_a_malformed_request_is_rejected_and_not_logged(caplog):
    health = free_address()
    server = HealthServer(LoopLagMonitor(), lambda: "", lambda: b"")
    server.bind(health, "")
    await server.serve()
    host, _, port = health.rpartition(":")
    try:
        for nonsense in (b"GET /" + b"canary" * 2000 + b" HTTP/1.1\r\n\r\n", b"canary\r\n\r\n"):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(nonsense)
            assert b" 400 " in await reader.readline()
            writer.close()
    finally:
        await server.close()
    assert "canary" not in caplog.text


async def test_metrics_are_served_in_the_prometheus_text_format():
    metrics = free_address()
    server = HealthServer(LoopLagMonitor(), lambda: "", lambda: b"metrics 1\n")
    server.bind("", metrics)
    await server.serve()
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{metrics}/metrics") as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    finally:
        await server.close()


def beats(*lags: float, every: float = 5.0) -> LoopLagMonitor:
    """Return a monitor with these lags, one after another."""
    monitor = LoopLagMonitor()
    for number, lag in enumerate(lags):
        monitor.record(number * every, number * every - lag)
    return monitor


def test_repeated_short_hangs_fail_the_liveness_probe():
    monitor = beats(*[3.0] * 11)
    assert monitor.problem == "the event loop lagged by 33 s in the last 60 s"
    assert monitor.max_lag == 3
    assert beats(*[3.0] * 9).problem == ""


def test_one_long_pause_does_not_fail_the_liveness_probe():
    monitor = beats(3600.0, 0.0, 0.0)
    assert (monitor.problem, monitor.max_lag) == ("", 3600.0)
    assert beats(3600.0, 20.0, 20.0, 20.0).problem


def test_lags_older_than_a_minute_are_ignored():
    monitor = beats(*[9.0] * 6)
    assert monitor.problem
    monitor.record(100.0, 100.0)
    assert (monitor.problem, monitor.max_lag) == ("", 0.0)


async def test_a_slow_reader_does_not_delay_the_shutdown():
    metrics = free_address()
    server = HealthServer(LoopLagMonitor(), lambda: "", lambda: b"m" * 50_000_000)
    server.bind("", metrics)
    await server.serve()
    host, _, port = metrics.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await server.close()
    assert time.monotonic() - began < 2
    writer.close()

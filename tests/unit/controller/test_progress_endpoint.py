"""The progress endpoint of several replicas: one certificate, one that takes reports, and clients that are slow."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from datetime import timedelta
from pathlib import Path

import pytest

from trainshed.controller import progress_connections, progress_endpoint, serving_certificates
from trainshed.controller.progress_forwarding import FORWARDED
from trainshed.plan.messages import progress_reports
from trainshed.plan.messages.progress_reports import ReportRefusal

from .progress import NAMESPACE, SECRET, ApiServer, ProgressReplica, a_reporting_job

REPORT = {"trainerStatus": {"progressPercentage": 7}}


def secret(server: ApiServer) -> dict:
    return server.world.server.object(f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}")


@pytest.fixture
def server() -> ApiServer:
    server = ApiServer()
    server.gives("good", "mnist", "worker-0")
    return server


async def test_of_replicas_that_start_at_once_one_makes_the_certificate_of_all(server):
    async with ProgressReplica(server) as first, ProgressReplica(server) as second:
        assert first.bundle == second.bundle != ""
        assert set(secret(server)["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}


async def test_a_replica_that_does_not_lead_forwards_to_the_leader(server):
    async with ProgressReplica(server) as leader, ProgressReplica(server, leader.address) as standby:
        leader.knows(a_reporting_job(), "worker-0")
        standby.knows(a_reporting_job(), "worker-0")
        assert await standby.post(REPORT) == (200, REPORT)
        assert (await standby.post(REPORT, "bad"))[0] == 403
        assert leader.cache.training.of("job-uid").percentage == 7
        assert standby.cache.training.of("job-uid") is None
        assert (leader.counted, standby.counted) == ({"Accepted": 1, "BadToken": 1}, {"Forwarded": 2})
        assert await standby.events() == [] != await leader.events()


@pytest.mark.parametrize("leader", ["", "127.0.0.1:1"])
async def test_without_a_leader_a_report_is_refused_for_now(server, leader):
    async with ProgressReplica(server, leader) as standby:
        code, status = await standby.post(REPORT)
        assert (code, status["message"]) == (503, f"NoLeader: {progress_reports.NO_LEADER}")
        assert standby.counted == {ReportRefusal.NO_LEADER: 1}


async def test_two_replicas_of_which_none_leads_do_not_forward_in_a_circle(server):
    async with ProgressReplica(server) as first, ProgressReplica(server, first.address) as second:
        first.leader = second.address
        assert (await second.post(REPORT))[0] == 503
        assert (first.counted, second.counted) == ({"NoLeader": 1}, {"Forwarded": 1})


async def test_a_report_is_sent_to_no_server_but_a_replica(server):
    """The address of the leader may be that of another pod by now: the token must not get there."""
    async with ProgressReplica(ApiServer()) as other, ProgressReplica(server, other.address) as standby:
        assert (await standby.post(REPORT))[0] == 503
        assert other.counted == {}


async def test_only_replicas_say_where_a_report_comes_from(server):
    async with ProgressReplica(server) as leader:
        leader.knows(a_reporting_job(), "worker-0")
        assert (await leader.post(REPORT, "bad", headers={FORWARDED: f"192.0.2.1 {'0' * 64}"}))[0] == 403
        [event] = await leader.events()
        assert "It came from 127.0.0.1." in event


async def test_a_renewed_certificate_is_used_without_a_restart(server, monkeypatch):
    monkeypatch.setattr(progress_endpoint, "INTERVAL", 0.05)
    async with ProgressReplica(server) as first, ProgressReplica(server) as second:
        before, bundle = secret(server)["data"]["tls.crt"], first.bundle
        monkeypatch.setattr(serving_certificates, "SERVER_RENEWED", serving_certificates.SERVER_LASTS)
        while secret(server)["data"]["tls.crt"] == before:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(serving_certificates, "SERVER_RENEWED", timedelta())
        await asyncio.sleep(0.3)
        shown = {await served(replica) for replica in (first, second)}
        assert shown == {served_by(secret(server))}
        assert first.bundle == second.bundle == bundle


async def served(replica: ProgressReplica) -> str:
    return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", replica.port))


def served_by(found: dict) -> str:
    known = serving_certificates.from_secret(found["data"])
    return known.certificate.decode()


async def test_clients_that_send_nothing_keep_no_place(server, monkeypatch):
    monkeypatch.setattr(progress_connections, "SECONDS", 0.5)
    async with ProgressReplica(server) as replica:
        replica.knows(a_reporting_job(), "worker-0")
        held = [await asyncio.open_connection("127.0.0.1", replica.port) for _ in range(40)]
        ends = [await asyncio.wait_for(reader.read(), 5) for reader, _ in held]
        assert ends == [b""] * 40
        for _, writer in held:
            writer.close()
        assert (await replica.post(REPORT))[0] == 200


def test_connections_of_this_machine_are_counted_for_each_user(tmp_path, monkeypatch):
    """All of them have one address: those of another user would take the places of all."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        port = client.getsockname()[1]
        known = f"127.0.0.1 of user {os.getuid()}" if Path("/proc/net/tcp").exists() else "127.0.0.1"
        assert progress_connections.peer("127.0.0.1", port) == known
        assert progress_connections.peer("10.0.0.7", port) == "10.0.0.7"
        monkeypatch.setattr(progress_connections, "TCP_SOCKETS", tmp_path / "missing")
        assert progress_connections.peer("127.0.0.1", port) == "127.0.0.1"

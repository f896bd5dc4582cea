"""The ports of the framework's container, of its pod, and of the Services: what the API server accepts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from support.builders import FRAMEWORKS
from support.jobs import KINDS, pod_spec, smallest
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Replica, ServiceForm
from trainshed.api.ports import Port, published
from trainshed.plan import builders

REPORTED = Path(__file__).parents[2] / "reported"
UDP, SCTP = {"protocol": "UDP"}, {"protocol": "SCTP"}
OWN = {"name": "tfjob-port", "port": 2222}


def rendered(document, services=ServiceForm.REPLICA):
    """The ports of the first pod, and those of its Service or the job's, as the API server gets them."""
    framework, defaults = FRAMEWORKS[document["kind"]], JobDefaults(services=services)
    job = parse.job(document, framework, defaults)
    assert job.problems == ()
    first = Replica(job.groups[0].role, 0)
    pod = builders.pod_maker(framework, job, defaults)(first, 0).body["spec"]["containers"][0]
    if services is ServiceForm.JOB:
        return pod["ports"], builders.job_service(framework, job).body["spec"]["ports"]
    return pod["ports"], builders.service_maker(framework, job)(first).body["spec"]["ports"]


def with_ports(*ports, kind="TFJob", **spec):
    """A job whose framework's container declares these ports: a number, or a number, a name and the protocol."""
    document = smallest(kind, "a")
    pod = pod_spec(document, KINDS[kind].least[0])
    pod.update(spec)
    pod["containers"][0]["ports"] = [
        {"containerPort": number, **({"name": name} if name else {}), **more} for number, name, more in ports
    ]
    return document


@pytest.mark.parametrize("form", ServiceForm)
@pytest.mark.parametrize(
    ("ports", "published"),
    [
        ([(6006, "", {})], [{"name": "tcp-6006", "port": 6006}, OWN]),
        ([(2222, "", {})], [OWN]),
        ([(2222, "grpc", {})], [{"name": "grpc", "port": 2222}]),
        ([(3333, "tfjob-port", {}), (2222, "", {})], [OWN | {"port": 3333}, {"name": "tcp-2222", "port": 2222}]),
        ([(2222, "", UDP)], [{"name": "udp-2222", "port": 2222, **UDP}, OWN]),
        (
            [(53, "dns", {}), (53, "dns-udp", UDP), (53, "", SCTP), (53, "again", {})],
            [
                {"name": "dns", "port": 53},
                {"name": "dns-udp", "port": 53, **UDP},
                {"name": "sctp-53", "port": 53, **SCTP},
                OWN,
            ],
        ),
        (
            [(8080, "", {}), (8080, "", {}), (8081, "", {})],
            [{"name": f"tcp-{n}", "port": n} for n in (8080, 8081)] + [OWN],
        ),
        ([(80, "Web", {}), (81, "_", {})], [{"name": "web", "port": 80}, {"name": "tcp-81", "port": 81}, OWN]),
        ([(0, "none", {}), (70000, "", {}), (5, "odd", {"protocol": "QUIC"})], [OWN]),
    ],
)
def test_a_service_publishes_each_port_once_under_a_valid_name(ports, published, form):
    assert rendered(with_ports(*ports), form)[1] == published


@pytest.mark.parametrize(
    ("name", "pod", "service"),
    [
        pytest.param(
            "05-unnamed-port",
            [{"containerPort": 6006}, {"name": "pytorchjob-port", "containerPort": 23456}],
            [{"name": "tcp-6006", "port": 6006}, {"name": "pytorchjob-port", "port": 23456}],
            marks=pytest.mark.reported("05-unnamed-port"),
        ),
        pytest.param(
            "06-same-port-twice",
            [{"name": "grpc", "containerPort": 2222}],
            [{"name": "grpc", "port": 2222}],
            marks=pytest.mark.reported("06-same-port-twice"),
        ),
    ],
)
def test_a_reported_job_gets_ports_that_the_api_server_accepts(name, pod, service):
    document = yaml.safe_load((REPORTED / f"{name}.yaml").read_text())
    assert rendered(document) == (pod, service)


@pytest.mark.parametrize(
    ("number", "host", "is_declared"), [(2222, True, False), (2223, True, True), (2222, False, True)]
)
def test_on_the_network_of_the_node_a_port_of_another_container_is_not_declared_again(number, host, is_declared):
    document = with_ports(hostNetwork=host)
    sidecar = {"name": "proxy", "image": "proxy", "ports": [{"containerPort": number}]}
    pod_spec(document, "Worker")["containers"].append(sidecar)
    assert rendered(document)[0] == ([{"name": "tfjob-port", "containerPort": 2222}] if is_declared else [])


def test_unnamed_ports_get_names_of_their_own():
    found = published({"Worker": [Port("", number) for number in range(1, 5001)]})
    assert len({port["name"] for port in found}) == 5000

"""The names, addresses and ports of all replicas: what DNS and Services are in a cluster."""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import sys
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from pathlib import Path

from trainshed.api.framework import child_name
from trainshed.api.job import Document, Job

#: The first address of the bridge, in the range for benchmarks of networks (RFC 2544): no real network has it.
GATEWAY, PREFIX_LENGTH = IPv4Address("198.18.0.1"), 15
LOOPBACK = "127.0.0.1"
DOMAIN = "cluster.local"
#: The most characters of a host name, and of one without a domain.
LONGEST, LONGEST_LABEL = 64, 63
#: A whole word with the shape of a DNS name, looked up by its text: an alternation of thousands of names takes seconds.
NAME = r"(?<![\w.-])(\w[\w-]*+(?:\.\w[\w-]*+)*+)"
#: Such a word, and the port that may follow it after a colon.
ENDPOINT = re.compile(rf"{NAME}(?::([0-9]{{1,5}})(?!\d))?")
#: The address of a pod on the loopback, and a port.
OWN_PORT = re.compile(rf"(?<![\d.]){re.escape(LOOPBACK)}:([0-9]{{1,5}})(?!\d)")
#: The text of a port.
PORT = re.compile("[0-9]{1,5}")
#: How a variable ends that has the host to whose port another variable with the same beginning belongs.
OWNERS = ("ADDR", "ADDRESS", "HOST", "IP", "URI")
#: Ports for replicas on the loopback: below the range from which Linux takes the ports of outgoing connections.
PORTS = range(20000, 32000)


class NoPort(Exception):
    """All ports are in use."""


class Hosts:
    """The pods by name, and the addresses that they have for as long as the run lasts.

    A pod that is created again has the same address, so /etc/hosts never changes while replicas read it. Addresses
    follow that of the gateway, which a runtime may set before it uses them.
    """

    def __init__(self) -> None:
        self.gateway = GATEWAY
        self._pods: dict[str, tuple[str, int]] = {}
        self._names: dict[str, str] = {}

    def add_job(self, job: Job) -> None:
        """Add the replicas of a job."""
        for replica in job.all_replicas:
            name = child_name(job, replica)
            if f"{job.namespace}/{name}" in self._pods:
                continue
            self._pods[f"{job.namespace}/{name}"] = (job.name, len(self._pods) + 1)
            for known in names(job.namespace, job.name, name):
                self._names.setdefault(known, name)

    def __len__(self) -> int:
        """Return the number of pods."""
        return len(self._pods)

    def address(self, namespace: str, pod: str) -> str:
        """Return the address of a pod; raises KeyError if it is no replica of a job."""
        return str(self.gateway + self._pods[f"{namespace}/{pod}"][1])

    def text(self, own: str = "") -> str:
        """Return the content of /etc/hosts, with the line `own` before those of the pods."""
        lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost", *([own] if own else ())]
        for key, (job, _) in self._pods.items():
            namespace, _, pod = key.partition("/")
            lines.append(f"{self.address(namespace, pod)}\t{' '.join(names(namespace, job, pod))}")
        return "\n".join(lines) + "\n"

    def file(self, folder: Path, own: str = "") -> Path:
        """Return the file in a folder that has this text, made when it is first wanted; users of images can read it."""
        path = folder / f"hosts{f'-{own.split(maxsplit=1)[0]}' if own else ''}"
        if not path.exists():
            path.write_text(self.text(own), encoding="utf-8")
            path.chmod(0o644)
        return path

    def own_line(self, namespace: str, pod: str, host: str) -> str:
        """Return the line of /etc/hosts by which a pod finds its host name, empty if that is one of its names."""
        if self.pod(host) == pod:
            return ""
        return f"{self.address(namespace, pod)}\t{' '.join(dict.fromkeys((host, host.partition('.')[0])))}"

    def pod(self, name: str) -> str | None:
        """Return the pod that a DNS name means, None if it is not the name of a replica."""
        return self._names.get(name)


def names(namespace: str, job: str, pod: str) -> tuple[str, ...]:
    """Return the DNS names of a pod, for both forms of Services: one for each replica, or one for the job."""
    domains = ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.{DOMAIN}")
    return tuple(f"{host}{domain}" for host in (pod, f"{pod}.{job}") for domain in domains)


def host_name(pod: Document) -> str:
    """Return the host name that a kubelet gives a pod: its own or the pod's name, as a label or with its domain."""
    metadata, spec = pod["metadata"], pod["spec"]
    label = str(spec.get("hostname") or metadata["name"])[:LONGEST_LABEL].rstrip("-.")
    if not (spec.get("setHostnameAsFQDN") and spec.get("subdomain")):
        return label
    return f"{label}.{spec['subdomain']}.{metadata['namespace']}.svc.{DOMAIN}"


class Ports:
    """Free ports of the loopback for the ports of replicas; no other run on this machine gets them, of whatever user.

    They begin at a random one: what other programs do between the choice of a port and its use is not known.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], int] = {}
        self._locks: list[socket.socket] = []
        self._next = PORTS[secrets.randbelow(len(PORTS))]

    def of(self, pod: str, port: int) -> int:
        """Return the port that stands for this port of this pod; raises `NoPort`."""
        known = self._known.get((pod, port))
        if known is None:
            known = self._known[pod, port] = self._reserve()
        return known

    def close(self) -> None:
        """Let other runs use the ports."""
        for lock in self._locks:
            lock.close()
        self._locks.clear()

    def _reserve(self) -> int:
        for _ in PORTS:
            port, self._next = self._next, self._next + 1 if self._next + 1 in PORTS else PORTS.start
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind(("", port))
                self._locks.append(_lock(port))
                return port
        raise NoPort(f"no free port between {PORTS.start} and {PORTS.stop}")


def _lock(port: int) -> socket.socket:
    """Return what reserves a port on this machine until it is closed, at the latest with the process; raises OSError.

    That is a name that only Linux has, in each network namespace, and elsewhere the same number of UDP on ::1.
    """
    linux = sys.platform.startswith("linux")
    lock = socket.socket(socket.AF_UNIX if linux else socket.AF_INET6, socket.SOCK_DGRAM)
    try:
        lock.bind(f"\0trainshed-port-{port}" if linux else ("::1", port))
    except OSError:
        lock.close()
        raise
    return lock


def on_loopback(env: Mapping[str, str], hosts: Hosts, ports: Ports, own: tuple[str, Iterable[int]]) -> dict[str, str]:
    """Return the environment of a replica with 127.0.0.1 and a port of its own in place of each name and port.

    `own` is the pod with its ports. A variable that ends in PORT belongs to the variable that has the same beginning
    and ends in ADDR, ADDRESS, HOST, IP or URI; without one it is a port of the pod itself. So is one that follows the
    pod's address, which other variables may refer to.
    """
    pod, own_ports = own

    def own_port(found: re.Match[str]) -> str:
        return f"{LOOPBACK}:{ports.of(pod, int(found[1]))}" if int(found[1]) in own_ports else found[0]

    changed = {}
    for name, value in env.items():
        text = loopback_text(OWN_PORT.sub(own_port, value), hosts, ports)
        if name.endswith("PORT") and PORT.fullmatch(value):
            siblings = (env.get(name.removesuffix("PORT") + end, "") for end in OWNERS)
            owner = next((found for sibling in siblings if (found := hosts.pod(sibling))), "")
            if owner or int(value) in own_ports:
                text = str(ports.of(owner or pod, int(value)))
        changed[name] = text
    return changed


def loopback_text(text: str, hosts: Hosts, ports: Ports) -> str:
    """Return a text with 127.0.0.1 and a port of its own in place of each `name:port` of a replica."""

    def replacement(found: re.Match[str]) -> str:
        pod = hosts.pod(found[1])
        if pod is None:
            return found[0]
        return f"{LOOPBACK}:{ports.of(pod, int(found[2]))}" if found[2] else LOOPBACK

    return ENDPOINT.sub(replacement, text)

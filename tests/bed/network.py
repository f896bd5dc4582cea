"""The network of the bed: a bridge in 198.18.0.0/15, which is reserved for benches and never routed, and a node."""

from __future__ import annotations

import subprocess

from .places import state
from .steps import run

BRIDGE, NODE = "bed0", "bed-node1"
#: The host on the bridge (API server, DNS), the node, its pods, and Services.
HOST, NODE_ADDRESS = "198.18.0.1", "198.18.0.11"
PODS, SERVICES, BENCH = "198.18.16.0/24", "198.19.0.0/20", "198.18.0.0/15"


def up() -> None:
    """Lay the bridge and the node's namespace, unless they are there; what was left half done is begun anew."""
    if _output("ip", "-n", NODE, "route", "show", "default"):  # the last thing that is laid
        return
    down()
    _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("addr", "add", f"{HOST}/24", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")
    _ip("route", "add", "unreachable", BENCH)
    _ip("route", "add", PODS, "via", NODE_ADDRESS)
    _ip("netns", "add", NODE)
    _ip("link", "add", "bed-veth1", "type", "veth", "peer", "name", "eth0", "netns", NODE)
    _ip("link", "set", "bed-veth1", "master", BRIDGE, "up")
    run(["ip", "netns", "exec", NODE, "sysctl", "-qw", "net.ipv4.ip_forward=1"], state() / "network.log")
    for words in (
        ("addr", "add", f"{NODE_ADDRESS}/24", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("link", "set", "lo", "up"),
        ("route", "add", "default", "via", HOST),
    ):
        _ip("-n", NODE, *words)


def down() -> None:
    """Take everything away; what is not there is no error."""
    for words in (
        ("netns", "del", NODE),
        ("link", "del", "bed-veth1"),
        ("link", "del", BRIDGE),
        ("route", "del", "unreachable", BENCH),
    ):
        subprocess.run(["ip", *words], check=False, capture_output=True)


def left() -> list[str]:
    """What is still there."""
    links, routes = _output("ip", "-br", "link"), _output("ip", "route")
    found = [f"interface {name}" for name in (BRIDGE, "bed-veth1") if name in links]
    found += [f"network namespace {NODE}"] if NODE in _output("ip", "netns") else []
    return found + [f"route to {net}" for net in (BENCH, PODS) if net in routes]


def inside(*command: object) -> list[str]:
    """A command, to be run in the node's network."""
    return ["nsenter", f"--net=/var/run/netns/{NODE}", "--", *(str(word) for word in command)]


def _ip(*words: str) -> None:
    run(["ip", *words], state() / "network.log", hint="make cluster-down, then make cluster")


def _output(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout

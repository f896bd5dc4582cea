"""The ports of a container, and those that its Service publishes, which the API server accepts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from .coerce import as_sequence, parse_integer
from .framework import FrameworkContainer
from .job import Document, Port

TCP = "TCP"
PROTOCOLS = (TCP, "UDP", "SCTP")
HIGHEST = 65535
#: What the API server accepts as the name of a port of a Service.
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


def declared(container: Document) -> tuple[Port, ...]:
    """Return the ports that a container declares."""
    return tuple(_port(item) for item in as_sequence(container.get("ports")) if isinstance(item, dict))


def of_container(container: Document, own: FrameworkContainer) -> tuple[Port, ...]:
    """Return the ports of the framework's container: those that it declares, and the framework's own.

    The framework's own port has its name or, without this name, its number; a port without a name gets it then.
    """
    found = declared(container)
    if not own.port or any(port.name == own.port_name for port in found):
        return found
    unnamed, named = Port("", own.port), Port(own.port_name, own.port)
    if not has_number(found, own.port):
        return (*found, named)
    return tuple(named if port == unnamed else port for port in found)


def own_number(ports: Iterable[Port], own: FrameworkContainer) -> int:
    """Return the number of the framework's own port, which the user may have changed."""
    return next((port.number for port in ports if port.name == own.port_name), own.port)


def has_own(ports: Collection[Port], own: FrameworkContainer) -> bool:
    """Return whether the framework's own port is among these."""
    return any(port.name == own.port_name or _listens(port, own.port) for port in ports)


def has_number(ports: Iterable[Port], number: int) -> bool:
    """Return whether a port for TCP with this number is among these."""
    return any(_listens(port, number) for port in ports)


def published(ports: Mapping[str, Iterable[Port]]) -> list[Document]:
    """Return the ports of a Service for these roles: each number of a protocol once, under a name of its own.

    A name that stands for different numbers in two roles gets the later role as a suffix. A port without a name gets
    one, because of several ports each needs one. A port that no pod can have is left out.
    """
    found: dict[tuple[int, str], str] = {}
    names: set[str] = set()
    for role, group in ports.items():
        for port in group:
            key, name = (port.number, port.protocol), _name(port)
            if name in names and key not in found:
                name = f"{name}-{role.lower()}"
            if _is_valid(port) and key not in found and name not in names:
                found[key] = name
                names.add(name)
    return [
        {"name": name, "port": number} | ({} if protocol == TCP else {"protocol": protocol})
        for (number, protocol), name in found.items()
    ]


def _port(item: Document) -> Port:
    return Port(str(item.get("name") or ""), parse_integer(item.get("containerPort")), str(item.get("protocol") or TCP))


def _listens(port: Port, number: int) -> bool:
    return (port.number, port.protocol) == (number, TCP)


def _is_valid(port: Port) -> bool:
    return 1 <= port.number <= HIGHEST and port.protocol in PROTOCOLS


def _name(port: Port) -> str:
    name = port.name.lower()
    return name if LABEL.fullmatch(name) else f"{port.protocol.lower()}-{port.number}"

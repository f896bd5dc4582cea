"""Ports for servers that a test starts: none is given out twice, nor taken by a connection before its server has it."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from functools import cache

#: Above the services that have a number of their own, below node ports (30000) and outgoing connections (32768).
RANGE = range(12_000, 30_000)


def free_port() -> int:
    """Return a free port of the loopback interface."""
    return next(port for port in _candidates() if _is_free(port))


@cache
def _candidates() -> Iterator[int]:
    """All of them, in an order that no other process has, however this one's chance was seeded."""
    ports = list(RANGE)
    random.SystemRandom().shuffle(ports)
    return iter(ports)


def _is_free(port: int) -> bool:
    with socket.socket() as door:
        try:
            door.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True

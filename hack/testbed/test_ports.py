"""No port is given out twice, nor one that is in use."""

from __future__ import annotations

import socket

from testbed.ports import RANGE, free_port


def test_no_port_comes_twice_and_all_are_in_range():
    found = [free_port() for _ in range(100)]
    assert len(set(found)) == 100
    assert all(port in RANGE for port in found)


def test_a_port_in_use_is_left_out(monkeypatch):
    with socket.socket() as door:
        taken = free_port()
        door.bind(("127.0.0.1", taken))
        other = free_port()
        monkeypatch.setattr("testbed.ports._candidates", lambda: iter((taken, other)))
        assert free_port() == other

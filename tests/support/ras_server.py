"""A server that speaks the protocol of NCCL's RAS, without NCCL: as a program in a pod, and in the process of a test.

It needs the standard library only. As a program it answers for one rank on each of `--hosts`, each with a step a
second; after `--still-after` seconds rank 1 no longer begins an operation, and the others wait for it.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import socketserver
import time
from collections.abc import Callable, Iterable
from typing import Any

PORT = 28028
VERSION = "2.30.7"
KINDS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


def rank(number: int, counts: dict[str, int], host: str = "", **status: Any) -> dict[str, Any]:
    """A rank as NCCL writes it; each has a host of its own unless one is given."""
    flags = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    return {
        "rank": number, "host": host or f"10.0.0.{number}", "pid": 100 + number, "cuda_dev": 0, "nvml_dev": 0,
        "status": flags | status,
        "collective_counts": dict.fromkeys(KINDS, 0) | counts,
    }  # fmt: skip


def communicator(name: str, ranks: list[dict[str, Any]], missing: Iterable[int] = ()) -> dict[str, Any]:
    """A communicator of these ranks, and of some that do not answer."""
    lost = [
        {
            "rank": number, "host": f"10.0.0.{number}", "pid": 100 + number, "cuda_dev": 0, "nvml_dev": 0,
            "status": {"unresponsive": True, "considered_dead": False},
        }
        for number in missing
    ]  # fmt: skip
    return {
        "hash": f"0x{name}", "secondary_hash": f"0x{name}:0x1", "size": len(ranks) + len(lost),
        "ranks_count": len(ranks), "missing_ranks_count": len(lost), "ranks": ranks, "missing_ranks": lost,
    }  # fmt: skip


def answer(*communicators: dict[str, Any], version: str = VERSION) -> bytes:
    """An answer in JSON, in the form of NCCL's; that of 2.28.9 lacks a comma in each rank that is missing."""
    found = {
        "nccl_version": version, "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
        "timestamp": "2026-06-19 06:51:56", "communicators_count": len(communicators), "communicators": communicators,
        "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
    }  # fmt: skip
    text = json.dumps(found, indent=2) + "\n"
    if version == "2.28.9":
        text = re.sub(r'("nvml_dev": 0),(\s+"status": {\s+"unresponsive")', r"\1\2", text)
    return text.encode()


def counts(*numbers: int) -> dict[str, Any]:
    """A communicator of the whole job whose ranks have begun as many AllReduces."""
    return communicator("a1", [rank(index, {"AllReduce": number}) for index, number in enumerate(numbers)])


#: The beginning of an answer as text, of a version that has no other.
TEXT = b"NCCL version 2.26.2 compiled with CUDA 12.2\nCUDA runtime version 12020, driver version 12020\n\nJob summary\n"


def is_old(version: str) -> bool:
    """Whether this version has no JSON."""
    return tuple(int(part) for part in version.split(".")) < (2, 28, 7)


class RasServer(socketserver.ThreadingTCPServer):
    """Answers with what `state` returns when it is asked; `asked` has the commands of all clients."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, address: tuple[str, int], state: Callable[[], bytes], version: str = VERSION) -> None:
        super().__init__(address, _Client)
        self.state, self.version = state, version
        self.asked: list[str] = []


class _Client(socketserver.StreamRequestHandler):
    server: RasServer

    def handle(self) -> None:
        """Answer the commands of one client; a status ends the connection."""
        for line in self.rfile:
            command = line.decode().strip().lower()
            self.server.asked.append(command)
            if command in ("status", "verbose status"):
                self.wfile.write(TEXT if is_old(self.server.version) else self.server.state())
                return
            self.wfile.write(self._reply(command))

    def _reply(self, command: str) -> bytes:
        if command.startswith("client protocol "):
            return b"SERVER PROTOCOL 2\n"
        if command.startswith("timeout "):
            return b"OK\n"
        known = command == "set format json" and not is_old(self.server.version)
        return b"OK\n" if known else f"ERROR: Unknown command {command}\n".encode()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=lambda names: names.split(","), default=["localhost"] * 2)
    parser.add_argument("--still-after", type=float, default=1e9)
    options = parser.parse_args()
    began, numbers = time.monotonic(), range(len(options.hosts))

    def state() -> bytes:
        seconds = min(time.monotonic() - began, options.still_after)
        ahead, is_still = int(seconds) + 1, seconds >= options.still_after
        return answer(communicator("a1", [at(number, ahead - (number == 1 and is_still)) for number in numbers]))

    def at(number: int, count: int) -> dict[str, Any]:
        return rank(number, {"AllReduce": count}, socket.gethostbyname(options.hosts[number]))

    RasServer(("localhost", PORT), state).serve_forever()


if __name__ == "__main__":
    main()

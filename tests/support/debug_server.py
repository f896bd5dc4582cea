"""A server that answers as PyTorch's debug server does, with pages that were read from it (`recorded/`)."""

from __future__ import annotations

import socketserver
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded"
HEAD = b"HTTP/1.0 200 OK\r\nServer: BaseHTTP/0.6 Python/3.11.7\r\nContent-type: text/html\r\n\r\n"


def page(name: str) -> bytes:
    """An answer of torch 2.13.0: `stacks` of three ranks, or one of them is `silent`."""
    return HEAD + (RECORDED / f"torch-2.13.0-{name}.html").read_bytes()


class DebugServer(socketserver.ThreadingTCPServer):
    """Answers each request with `content` and closes the connection; `asked` has the first lines of the requests."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Client)
        self.content = content
        self.asked: list[bytes] = []


class _Client(socketserver.StreamRequestHandler):
    server: DebugServer

    def handle(self) -> None:
        self.server.asked.append(self.rfile.readline())
        while self.rfile.readline().strip():
            pass
        self.wfile.write(self.server.content)

"""A door between the operator and the API server that counts writes, and can bring the operator down at any of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

import urllib3

from testbed.kubeconfig import kubeconfig

from .user_client import Hand

WRITES = {"POST", "PUT", "PATCH", "DELETE"}
DROPPED = {"connection", "host", "content-length", "transfer-encoding", "accept-encoding"}


class Proxy:
    """Forwards to the server of a `Hand`. `writes` are verb and path of what passed, Leases left out.

    At write number `at` (from 1), just before it is forwarded or just after the server has carried it out, `strike` is
    called and the answer is lost.
    """

    def __init__(self, hand: Hand) -> None:
        self.writes: list[str] = []
        self.at = 0
        self.before = True
        self.strike: Callable[[], None] = lambda: None
        self._hand = hand
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig that leads through this door."""
        server = f"http://127.0.0.1:{self._server.server_port}"
        return kubeconfig(folder / "proxied.kubeconfig", "proxy", server, {})

    def counts(self, verb: str, path: str) -> bool:
        """Note a request; whether it is the one to strike at."""
        if verb not in WRITES or "/leases" in path:
            return False
        with self._lock:
            self.writes.append(f"{verb} {path}")
            return len(self.writes) == self.at

    def forward(self, verb: str, path: str, body: bytes | None, headers: dict[str, str]) -> urllib3.BaseHTTPResponse:
        """The server's answer, to be read piece by piece."""
        kept = {name: value for name, value in headers.items() if name.lower() not in DROPPED}
        timeout = urllib3.Timeout(connect=5, read=120)
        return self._hand._http.request(
            verb, self._hand._server + path, body=body, headers=kept, preload_content=False, timeout=timeout
        )


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # whoever was killed says no goodbye
                super().handle()

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else None
            struck = proxy.counts(self.command, self.path)
            if struck and proxy.before:
                return self._fall()
            answer = proxy.forward(self.command, self.path, body, dict(self.headers))
            if struck:
                answer.read()
                answer.release_conn()
                return self._fall()
            return self._pass_on(answer)

        def _fall(self) -> None:
            proxy.strike()
            self.close_connection = True

        def _pass_on(self, answer: urllib3.BaseHTTPResponse) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with contextlib.suppress(OSError, urllib3.exceptions.HTTPError):
                for piece in answer.stream(65536, decode_content=True):
                    self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            answer.release_conn()

        def log_message(self, *_: object) -> None:
            """Say nothing: the API server's audit log says it all."""

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the base class's names

    return Handler

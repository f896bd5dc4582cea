"""A server for a handler of http.server, in a thread of its own; and the kubeconfig of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from testbed.kubeconfig import kubeconfig


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Yield the address of the server, which logs nothing."""
    quiet = type("Quiet", (handler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), quiet) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def written_kubeconfig(folder: Path, address: str, **user: str) -> Path:
    """Return a kubeconfig file for a server."""
    return kubeconfig(folder / "kubeconfig", "c", address, {"token": "t"} | user)

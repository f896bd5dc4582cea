"""A cluster that answers reads with the objects that a test gives, and refuses everything else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from .served import served, written_kubeconfig

#: By the last part of a path: the objects of a list, in all namespaces, a whole answer, or the HTTP status of an empty
#: one; None if it is refused.
Objects = Mapping[str, Sequence[dict] | dict | str | int | None]


@contextlib.contextmanager
def listed_cluster(
    folder: Path, objects: Objects, message: str = "not served", created: Mapping[str, tuple[int, dict]] | None = None
) -> Iterator[Path]:
    """Yield a kubeconfig of the cluster; `message` is what it says to each request that it refuses.

    `created` are the answers to what is created, by the plural, and to what is patched, by the name.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer with the objects of the kind; refuse if there is None."""
            plural = urlsplit(self.path).path.rpartition("/")[2]
            found = objects.get(plural, ())
            if found is None:
                self.refuse()
            elif isinstance(found, int):
                self.respond(found, {})
            elif isinstance(found, dict | str):
                self.respond(200, found)
            else:
                self.respond(200, {"metadata": {}, "items": list(found)})

        def refuse(self) -> None:
            """Refuse."""
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.respond(403, {"reason": "Forbidden", "message": message})

        def do_POST(self) -> None:
            """Answer to what is created or patched, or refuse."""
            answer = (created or {}).get(urlsplit(self.path).path.rpartition("/")[2])
            if answer is None:
                self.refuse()
            else:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.respond(*answer)

        do_PATCH = do_POST  # noqa: N815 - the names are http.server's
        do_DELETE = refuse  # noqa: N815

        def respond(self, code: int, body: dict | str) -> None:
            """Send JSON, or text."""
            content = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with served(Handler) as address:
        yield written_kubeconfig(folder, address)

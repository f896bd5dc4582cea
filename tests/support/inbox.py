"""A webhook on this machine, which keeps the messages that it gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from .served import JsonHandler, served


@contextmanager
def inbox() -> Iterator[tuple[str, list[dict]]]:
    """Yield the URL of the webhook, and what it has got."""
    got: list[dict] = []

    class Handler(JsonHandler, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.read()))
            self.send_response(204)
            self.end_headers()

    with served(Handler) as address:
        yield f"{address}/secret", got

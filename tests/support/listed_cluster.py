"""A cluster that answers reads with the objects that a test gives, and refuses everything else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from .served import JsonHandler, served, written_kubeconfig

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

    class Handler(JsonHandler, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = objects.get(self.last(), ())
            if found is None:
                self.refuse()
            elif isinstance(found, int):
                self.respond(found, {})
            else:
                self.respond(200, found if isinstance(found, dict | str) else {"metadata": {}, "items": list(found)})

        def last(self) -> str:
            """Return the last part of the path: a plural, or the name of an object."""
            return urlsplit(self.path).path.rpartition("/")[2]

        def refuse(self) -> None:
            self.read()
            self.respond(403, {"reason": "Forbidden", "message": message})

        def do_POST(self) -> None:
            if answer := (created or {}).get(self.last()):
                self.read()
                self.respond(*answer)
            else:
                self.refuse()

        do_PATCH = do_POST  # noqa: N815 - the names are http.server's
        do_DELETE = refuse  # noqa: N815

    with served(Handler) as address:
        yield written_kubeconfig(folder, address)

"""What the server does, as the auditor reads it."""

from __future__ import annotations

from collections.abc import Callable

from support.audit.change import CREATED, DELETED, MODIFIED, Change, Request
from trainshed.client.transport import Request as Sent
from trainshed.memory.server import Server
from trainshed.memory.versioned_store import Commit


def observe_changes(server: Server, observe: Callable[[Change], None]) -> None:
    """Call `observe` with each change."""

    def on_commit(commit: Commit) -> None:
        before = commit.before.document if commit.before else None
        verb = DELETED if commit.deleted else CREATED if before is None else MODIFIED
        after = None if commit.deleted else commit.after.document
        observe(Change(server.now(), server.actor, verb, commit.resource.plural, before, after))

    server.store.listeners.append(on_commit)


def observe_requests(server: Server, observe: Callable[[str, Request], None]) -> None:
    """Call `observe` with the actor of each request but watches, and the request."""

    def on_request(actor: str, sent: Sent, status: int) -> None:
        observe(actor, Request(server.now(), sent.verb, sent.path, status))

    server.listeners.append(on_request)

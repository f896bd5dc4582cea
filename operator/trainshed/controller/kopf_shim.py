"""kopf's handlers: an event of kopf's only enqueues the job.

Trainshed uses no handlers of kopf that create, update, delete, time or index: they would write to users' jobs or keep
stale copies. Jobs are read by the operator's own informers; kopf's events only trigger another reconcile.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator

import kopf

from trainshed.api.framework import Framework
from trainshed.api.job import JobKey
from trainshed.client.credentials import Credentials


class NoDiffs(kopf.DiffBaseStorage):
    """Stores no last-seen state: no annotation on the job, and no four deep copies per event."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[object] | None = None) -> kopf.BodyEssence:
        """Return an empty essence."""
        del body, extra_fields
        return kopf.BodyEssence({})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Return an empty essence; none is stored."""
        del body
        return kopf.BodyEssence({})

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Store nothing."""


class NoProgress(kopf.ProgressStorage):
    """Stores no progress of handlers, because no handler makes progress."""

    def fetch(self, *, key: object, body: kopf.Body) -> None:
        """Return nothing; no progress is stored."""
        del key, body

    def store(self, *, key: object, record: object, body: kopf.Body, patch: kopf.Patch) -> None:
        """Store nothing."""

    def purge(self, *, key: object, body: kopf.Body, patch: kopf.Patch) -> None:
        """Remove nothing; no progress is stored."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: object) -> None:
        """Touch nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return the essence unchanged."""
        return essence


class InfiniteBackoff:
    """Back-off in seconds without a last retry, so that no outage of the API server ends kopf."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.2, 0.5, 1, 2, 5)
        while True:
            yield 10


def registry(
    frameworks: Iterable[Framework], credentials: Credentials, wake: Callable[[JobKey], None]
) -> kopf.OperatorRegistry:
    """Return kopf's registry with the startup, login and event handlers."""
    found = kopf.OperatorRegistry()

    @kopf.on.startup(registry=found)
    async def configure(settings: kopf.OperatorSettings, **_: object) -> None:
        _configure(settings)

    @kopf.on.login(registry=found)
    async def login(**_: object) -> kopf.ConnectionInfo:
        return _connection(credentials)

    for framework in frameworks:
        _listen(found, framework, wake)
    return found


def _listen(registry: kopf.OperatorRegistry, framework: Framework, wake: Callable[[JobKey], None]) -> None:
    @kopf.on.event("kubeflow.org", framework.version, framework.plural, registry=registry)
    async def changed(namespace: str | None, name: str | None, **_: object) -> None:
        wake(JobKey(namespace or "", framework.kind, name or ""))


def _configure(settings: kopf.OperatorSettings) -> None:
    settings.persistence.diffbase_storage = NoDiffs()
    settings.persistence.progress_storage = NoProgress()
    settings.persistence.consistency_timeout = 0
    settings.peering.standalone = True
    settings.queueing.idle_timeout = 0.1  # otherwise kopf keeps all listed jobs for five seconds
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = InfiniteBackoff()
    settings.watching.server_timeout = 60
    settings.watching.connect_timeout = 10
    settings.process.ultimate_exiting_timeout = None  # None: otherwise kopf kills the process this long after it failed
    # What ends kopf is logged where it is restarted; errors that kopf retries are logged by the operator's own
    # informers.
    logging.getLogger("kopf").setLevel(logging.CRITICAL)


def _connection(credentials: Credentials) -> kopf.ConnectionInfo:
    token = credentials.headers().get("Authorization", "").removeprefix("Bearer ")
    return kopf.ConnectionInfo(
        server=credentials.server,
        ca_path=credentials.ca or None,
        ca_data=b64encode(credentials.ca_data) or None,
        insecure=credentials.insecure or None,
        certificate_path=credentials.certificate or None,
        certificate_data=b64encode(credentials.certificate_data) or None,
        private_key_path=credentials.key or None,
        private_key_data=b64encode(credentials.key_data) or None,
        scheme="Bearer" if token else None,
        token=token or None,
    )

"""The front door: kopf tells us that a job has changed, and that is all it is asked for.

Handlers of kopf that create, update, delete, time or index would write to users' jobs or keep stale copies; the truth
about jobs comes from our own informer, and an event of kopf's only wakes a job that may have slept through something.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator

import kopf

from trainshed.api.framework import Framework
from trainshed.cluster.credentials import Credentials

from .view import Key


class NoDiffs(kopf.DiffBaseStorage):
    """Keeps no last-seen state: neither an annotation on the job nor four deep copies an event."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[object] | None = None) -> kopf.BodyEssence:
        """Nothing is of the essence."""
        del body, extra_fields
        return kopf.BodyEssence({})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Nothing was kept."""
        del body
        return kopf.BodyEssence({})

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Keep nothing."""


class NoProgress(kopf.ProgressStorage):
    """Keeps no progress of handlers: there are none that make any."""

    def fetch(self, *, key: object, body: kopf.Body) -> None:
        """Nothing was kept."""
        del key, body

    def store(self, *, key: object, record: object, body: kopf.Body, patch: kopf.Patch) -> None:
        """Keep nothing."""

    def purge(self, *, key: object, body: kopf.Body, patch: kopf.Patch) -> None:
        """Nothing to remove."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: object) -> None:
        """Touch nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Nothing to clear."""
        return essence


class Endless:
    """Pauses in seconds between tries, without end: the operator never dies of the API server."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.2, 0.5, 1, 2, 5)
        while True:
            yield 10


def registry(
    frameworks: Iterable[Framework], credentials: Credentials, wake: Callable[[Key], None]
) -> kopf.OperatorRegistry:
    """All that kopf is to know."""
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


def _listen(registry: kopf.OperatorRegistry, framework: Framework, wake: Callable[[Key], None]) -> None:
    @kopf.on.event("kubeflow.org", framework.version, framework.plural, registry=registry)
    async def changed(namespace: str | None, name: str | None, **_: object) -> None:
        wake(Key(namespace or "", framework.kind, name or ""))


def _configure(settings: kopf.OperatorSettings) -> None:
    settings.persistence.diffbase_storage = NoDiffs()
    settings.persistence.progress_storage = NoProgress()
    settings.persistence.consistency_timeout = 0
    settings.peering.standalone = True
    settings.queueing.idle_timeout = 0.1  # or all that was listed is kept whole for five seconds
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = Endless()
    settings.watching.server_timeout = 60
    settings.watching.connect_timeout = 10
    settings.process.ultimate_exiting_timeout = None  # so long after it has fallen over, kopf would kill us all
    # What ends kopf is told by whoever starts it again; what it tries again our own informers have said already.
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

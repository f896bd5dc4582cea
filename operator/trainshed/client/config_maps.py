"""Reads and writes a ConfigMap as a whole, and reads what an API server says of its version."""

from __future__ import annotations

from trainshed.api.coerce import parse_text
from trainshed.api.job import Document

from . import ApiError, NotFound
from .client import CORE, ApiClient
from .lists import DOCUMENTS
from .transport import Path, RestClient


async def kubernetes_version(rest: RestClient) -> str:
    """Return the version of the API server, such as `v1.36.1`; empty if it does not say."""
    try:
        answer = DOCUMENTS.answer(await rest.call("GET", Path("", "version")))
    except ApiError:
        return ""
    return parse_text(answer.get("gitVersion"))


class ConfigMaps:
    """Reads and writes with the limits of a client; no request is repeated, and every method may raise `ApiError`."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def read(self, namespace: str, name: str) -> Document | None:
        """Return the ConfigMap, None if it does not exist."""
        path, client = Path(CORE, "configmaps", namespace, name), self._client
        try:
            return DOCUMENTS.answer(await client.limiters.reads.run(namespace, lambda: client.rest.call("GET", path)))
        except NotFound:
            return None

    async def create(self, namespace: str, body: Document) -> Document:
        """Create a ConfigMap, return it as it is stored; raises `Conflict` if there is one of that name."""
        return await self._write("POST", Path(CORE, "configmaps", namespace), body)

    async def merge(self, namespace: str, name: str, patch: Document) -> Document:
        """Merge a patch, return what is stored; its uid and resourceVersion are preconditions.

        Raises `Conflict` and `NotFound`.
        """
        return await self._write("PATCH", Path(CORE, "configmaps", namespace, name), patch)

    async def kubernetes_version(self) -> str:
        """Return the version of the API server, as the function of this name does."""
        return await kubernetes_version(self._client.rest)

    async def _write(self, verb: str, path: Path, body: Document) -> Document:
        client = self._client
        answer = await client.limiters.config_maps.run(
            path.namespace, lambda: client.rest.write(verb, path, body, client.may_write)
        )
        return DOCUMENTS.answer(answer)

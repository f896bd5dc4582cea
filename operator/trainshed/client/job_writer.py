"""Creates, changes and deletes jobs with the rights of the user who asks; a dry run asks admission and RBAC as well."""

from __future__ import annotations

from collections.abc import Mapping

from trainshed.api.job import Document

from .job_reader import JobKind, named
from .lists import DOCUMENTS
from .transport import Path, RestClient

#: The name of these writes in managedFields, beside that of the operator.
MANAGER = {"fieldManager": "trainshed-cli"}
#: As `kubectl create` does it: an unknown field is an error.
STRICT = {"fieldValidation": "Strict"}


class JobWriter:
    """Writes over a client; every method may raise an `ApiError`.

    `dry_run` is whether the server only says what it would do.
    """

    def __init__(self, rest: RestClient, *, dry_run: bool) -> None:
        self._rest, self._dry_run = rest, dry_run
        self._query: Mapping[str, str] = MANAGER | ({"dryRun": "All"} if dry_run else {})

    async def create(self, kind: JobKind, namespace: str, job: Document) -> Document:
        """Create a job; raises `AlreadyExists` if there is one of its name."""
        path = Path(kind.prefix, kind.plural, namespace)
        return named(DOCUMENTS.answer(await self._rest.call("POST", path, job, {**self._query, **STRICT})), kind)

    async def patch(self, kind: JobKind, job: Document, patch: Document) -> Document:
        """Merge a patch into a job; raises `Conflict` if it is not as it was read, or another one of its name."""
        version = {key: job["metadata"][key] for key in ("uid", "resourceVersion")}
        body = {"metadata": version, **patch}
        return named(DOCUMENTS.answer(await self._rest.call("PATCH", _path(kind, job), body, self._query)), kind)

    async def delete(self, kind: JobKind, job: Document, *, only_as_read: bool = False) -> None:
        """Delete a job, its dependents in the background; raises `Conflict` if it is another one of its name.

        With `only_as_read` also if it is not as it was read.
        """
        known = ("uid", "resourceVersion") if only_as_read else ("uid",)
        options = {
            "propagationPolicy": "Background",
            "preconditions": {key: job["metadata"][key] for key in known},
            "dryRun": ["All"] if self._dry_run else [],  # beside a body the server ignores the query
        }
        await self._rest.call("DELETE", _path(kind, job), options)


def _path(kind: JobKind, job: Document) -> Path:
    return Path(kind.prefix, kind.plural, job["metadata"]["namespace"], job["metadata"]["name"])

"""Jobs of manifests as they are sent to the API server, and why it refuses one."""

from __future__ import annotations

from dataclasses import dataclass

import click

from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.client import UNCALLED, ApiError, NotFound, Unavailable
from trainshed.client.job_reader import JobKind
from trainshed.client.transport import AlreadyExists
from trainshed.frameworks import ALL_VERSIONS
from trainshed.manifests.manifest import Manifest

from .connection import sentence

#: What the server has set in the metadata of a job that `get -o yaml` has printed; the user means a new job.
OF_ANOTHER = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation", "managedFields")


@dataclass(frozen=True, slots=True)
class Submission:
    """A job to create: where it stands, its namespace and its kind."""

    manifest: Manifest
    namespace: str
    kind: JobKind

    def document(self) -> Document:
        """Return what is sent to the server."""
        metadata = {key: value for key, value in self.manifest.metadata.items() if key not in OF_ANOTHER}
        sent = {key: value for key, value in self.manifest.document.items() if key != "status"}
        return {**sent, "metadata": metadata}


def submission(manifest: Manifest, namespace: str, chosen: str) -> Submission:
    """Return a job with its namespace; raises `ClickException` if the user has chosen another one."""
    own = manifest.metadata.get("namespace") or namespace
    if chosen and own != chosen:
        raise click.ClickException(one_line(f"{manifest.place}: the job is of namespace {own}, and -n says {chosen}"))
    framework = ALL_VERSIONS[manifest.head]
    return Submission(manifest, own, JobKind(framework.kind, framework.plural, framework.prefix))


#: What is said of an admission webhook that does not answer.
UNANSWERED = "An admission webhook does not answer, and nothing is created until it does: ask its owner to look at it."


def refusal(job: Submission, error: ApiError, *, is_dry_run: bool) -> str:
    """Return why the API server does not create a job, and what to do."""
    advice = ""
    if isinstance(error, AlreadyExists):
        advice = ". Choose another name, or delete that job with trainshed delete."
    elif isinstance(error, NotFound) and not str(error).startswith("namespaces "):
        advice = f". The cluster has no kind {job.kind.kind} of {job.manifest.head[0]}: trainshed crds prints it."
    elif error.reason == UNCALLED:
        advice = f". {UNANSWERED}"
    elif isinstance(error, Unavailable) and not is_dry_run:
        advice = ". It may be created: trainshed get shows it then."
    return f"{sentence(error)}{advice}"

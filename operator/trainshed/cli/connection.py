"""How commands of users reach a cluster: with the caller's own kubeconfig and rights, and one line for each error."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click

from trainshed.api.foreign_text import one_line
from trainshed.client import UNAUTHORIZED, ApiError, Forbidden, Unavailable, informer
from trainshed.client.credentials import NoCredentials
from trainshed.client.http import HttpTransport
from trainshed.client.job_reader import JobReader, NoSuchJob
from trainshed.client.kubeconfig import find_credentials
from trainshed.client.transport import RestClient
from trainshed.views import refusals

DEFAULT_NAMESPACE = "default"
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Which cluster and namespace a command is about."""

    kubeconfig: str
    context: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """A connection, the namespace that the user means, and what users call the cluster."""

    reader: JobReader
    namespace: str
    rest: RestClient
    server: str = ""


def cluster_options(command: CommandT) -> CommandT:
    """Add the options that choose a cluster and a namespace; the command gets them as `options`."""

    @wraps(command)
    def with_options(*args: Any, kubeconfig: str, context: str, namespace: str, **others: Any) -> Any:  # noqa: ANN401 - click's
        return command(*args, options=ClusterOptions(kubeconfig, context, namespace), **others)

    for option in (
        click.option("--context", default="", help="Context of the kubeconfig (default: its current context)."),
        click.option("--kubeconfig", default="", help="Path of the kubeconfig file."),
        click.option("-n", "--namespace", default="", help="Namespace (default: that of the context)."),
    ):
        with_options = option(with_options)
    return with_options  # type: ignore[return-value] # the same command with more options


@asynccontextmanager
async def connected(options: ClusterOptions) -> AsyncIterator[Cluster]:
    """Yield the cluster; raises `NoCredentials`."""
    logging.getLogger(informer.__name__).addHandler(logging.NullHandler())  # commands say themselves what matters
    credentials = find_credentials(options.kubeconfig, options.context)
    rest = RestClient(HttpTransport(credentials))
    try:
        namespace = options.namespace or credentials.namespace or DEFAULT_NAMESPACE
        yield Cluster(JobReader(rest), namespace, rest, options.context or credentials.server.partition("://")[2])
    finally:
        await rest.close()


def warn(text: str) -> None:
    """Tell the user something beside the output of a command."""
    click.echo(one_line(text), err=True)


def run(options: ClusterOptions, work: Callable[[Cluster], Awaitable[int]]) -> None:
    """Run a command on the cluster and exit with its result; an error is one line that says what to do."""
    try:
        code = asyncio.run(_run(options, work))
    except BrokenPipeError:  # the reader of the output has seen enough: click ends the command in silence
        raise
    except (ApiError, NoCredentials, NoSuchJob, OSError) as error:
        raise click.ClickException(sentence(error)) from error
    raise SystemExit(code)


def sentence(error: Exception) -> str:
    """Return an error in one line, that of a refusal with what to ask for."""
    if isinstance(error, Forbidden):
        return refusals.sentence(str(error), error.reason)
    if isinstance(error, Unavailable) and error.reason == UNAUTHORIZED:
        return f"The API server rejects the credentials: {one_line(str(error))}"
    return one_line(str(error))


async def _run(options: ClusterOptions, work: Callable[[Cluster], Awaitable[int]]) -> int:
    try:
        async with connected(options) as cluster:
            return await work(cluster)
    except BaseExceptionGroup as several:  # of tasks: the first one is as good as any
        raise _first(several) from several


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error

"""`trainshed remove-finalizers`: remove the finalizer from pods when no operator is there to do so."""

from __future__ import annotations

import asyncio

import click

from trainshed.api.foreign_text import one_line
from trainshed.client import ApiError
from trainshed.client.client import ApiClient, Lister
from trainshed.client.credentials import Credentials, NoCredentials
from trainshed.client.finalizers import release_finalizer
from trainshed.client.flow_control import TokenBucket
from trainshed.client.http import HttpTransport
from trainshed.client.kubeconfig import find_credentials
from trainshed.client.transport import RestClient
from trainshed.controller.orphans import owner_is_gone


@click.command()
@click.option(
    "--include-active-jobs",
    is_flag=True,
    help="Include the pods of existing jobs; for use before Trainshed is removed.",
)
@click.option("--kubeconfig", default="", help="Path of the kubeconfig file.")
@click.option("--context", default="", help="Context of the kubeconfig (default: its current context).")
@click.option("--namespace", default="", help="Namespace of the pods (default: all).")
def remove_finalizers(*, include_active_jobs: bool, kubeconfig: str, context: str, namespace: str) -> None:
    """Remove Trainshed's finalizer from pods.

    By default, only pods whose job no longer exists are changed. Pods have the finalizer only if their job has the
    annotation trainshed.dev/track-results, and a running operator removes it itself. The exit code is 0 if none of
    these pods has the finalizer any more.
    """
    try:
        names, errors = asyncio.run(
            _remove(find_credentials(kubeconfig, context), namespace, include_active=include_active_jobs)
        )
    except (NoCredentials, ApiError, OSError) as error:
        raise click.ClickException(one_line(f"cannot remove the finalizer from all pods: {error}")) from error
    for name in names:
        click.echo(f"{name}: finalizer removed")
    click.echo(f"Removed the finalizer from {len(names)} {'pod' if len(names) == 1 else 'pods'}.")
    if errors:
        raise click.ClickException("\n".join(("cannot remove the finalizer from all pods:", *errors)))


async def _remove(credentials: Credentials, namespace: str, *, include_active: bool) -> tuple[list[str], list[str]]:
    """Remove the finalizers; return the names of these pods, and why others have theirs still."""
    rest = RestClient(HttpTransport(credentials))
    try:
        client = ApiClient(rest, TokenBucket(0, 0))
        released: list[str] = []
        errors: list[str] = []
        for pod in await Lister(rest).tracked_pods(namespace):
            name = one_line(f"pod {pod.namespace}/{pod.name}")
            try:
                if include_active or await owner_is_gone(client, pod):
                    await release_finalizer(client, pod)
                    released.append(name)
            except ApiError as error:
                errors.append(f"{name}: {error}")
        return released, errors
    finally:
        await rest.close()

"""`trainshed release`: lets go of the pods that are held until their results are noted, when nobody will note them."""

from __future__ import annotations

import asyncio

import click

from trainshed.cluster import ClusterError
from trainshed.cluster.census import Census
from trainshed.cluster.credentials import Credentials, NoCredentials, find
from trainshed.cluster.gateway import CORE, Gateway
from trainshed.cluster.holds import bereaved, let_go
from trainshed.cluster.lanes import Pace
from trainshed.cluster.lists import PODS
from trainshed.cluster.objects import JOB_NAME
from trainshed.cluster.transport import Sockets
from trainshed.cluster.wire import Path, Wire


@click.command()
@click.option(
    "--all", "everyone", is_flag=True, help="Also the pods of jobs that are there: before Trainshed is removed."
)
@click.option("--kubeconfig", default="", help="Credentials outside of a cluster.")
@click.option("--context", default="", help="The context of the kubeconfig to use.")
@click.option("--namespace", default="", help="Look at the pods of this namespace only.")
def release(*, everyone: bool, kubeconfig: str, context: str, namespace: str) -> None:
    """Take Trainshed's finalizer off pods whose job is gone, or with --all off every pod.

    It is there only where jobs ask for trainshed.dev/keep-results, and the operator takes it off by itself as long as
    it runs. The exit code is 0 if no such pod is left.
    """
    try:
        names = asyncio.run(_release(find(kubeconfig, context), namespace, everyone=everyone))
    except (NoCredentials, ClusterError, OSError) as error:
        raise click.ClickException(f"not all pods could be released: {error}") from error
    for name in names:
        click.echo(f"released {name}")
    click.echo(f"{len(names)} {'pod' if len(names) == 1 else 'pods'} released.")


async def _release(credentials: Credentials, namespace: str, *, everyone: bool) -> list[str]:
    wire = Wire(Sockets(credentials))
    try:
        gateway = Gateway(wire, Pace(0, 0))
        pods = await Census(wire).all(Path(CORE, "pods", namespace), PODS, JOB_NAME)
        released = []
        for pod in pods:
            if pod.held and (everyone or await bereaved(gateway, pod)):
                await let_go(gateway, pod)
                released.append(f"{pod.namespace}/{pod.name}")
        return released
    finally:
        await wire.close()

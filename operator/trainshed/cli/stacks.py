"""`trainshed stacks`: what all ranks of a job are doing, in groups, without anything in their image."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace

import click
import msgspec

from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.api.objects import Phase, Pod
from trainshed.client import ApiError, Forbidden
from trainshed.client.ephemeral_containers import EphemeralContainers, NoImage, NotRun
from trainshed.client.transport import RestClient
from trainshed.plan.messages.phrases import plural
from trainshed.stack_dump import IMAGE, MOST_THREADS
from trainshed.views import rank_stacks as view
from trainshed.views.diagnosis import Unreadable
from trainshed.views.rank_stacks import NotRead, Result
from trainshed.views.rows import full_name, listed, with_namespace

from .connection import Cluster, ClusterOptions, cluster_options, run
from .job_names import JOB
from .job_pods import Target, pods_of_replicas, replica_of, replica_options
from .parameters import duration

#: The most replicas that are read at a time.
AT_ONCE = 64
#: Reads the memory of processes of any user (capabilities(7)); Pod Security permits it at the level `privileged` only.
SECURITY = {"runAsUser": 0, "runAsNonRoot": False, "capabilities": {"add": ["SYS_PTRACE"]}}
#: What a refusal by Pod Security says, and what to do about this and about a missing right.
POD_SECURITY = "violates PodSecurity"
NOT_PERMITTED = (
    "The namespace does not permit the capability SYS_PTRACE. Its administrator can permit it: kubectl label namespace"
    " {namespace} --overwrite pod-security.kubernetes.io/enforce=privileged. Without that: kubectl exec POD -- py-spy"
    " dump --pid 1, if the image has py-spy and runs as root."
)
NO_RIGHT = (
    "Reading stacks needs the right to patch pods/ephemeralcontainers, and to get pods and pods/log: kubectl create"
    " role stacks -n {namespace} --verb=get,patch --resource=pods,pods/ephemeralcontainers,pods/log"
)
#: What to do about an image that the nodes cannot pull.
OTHER_IMAGE = (
    "--image, or the variable TRAINSHED_IMAGE, names another image with Trainshed, such as that of the operator:"
    " kubectl get deployments -A -o wide -l app.kubernetes.io/name=trainshed"
)


@dataclass(frozen=True, slots=True)
class StacksWanted:
    """Which replicas are read, and how."""

    replicas: tuple[str, ...]
    container: str
    image: str
    timeout: float
    whole: bool
    form: str | None


@click.command()
@click.argument("job", type=JOB)
@cluster_options
@replica_options
@click.option(
    "--image",
    default="",
    envvar="TRAINSHED_IMAGE",
    help="Image with Trainshed (default: that of the operator if you may read it, else that of this version).",
)
@click.option("--timeout", type=duration, default="60s", show_default=True, help="Give a replica up after this time.")
@click.option("--whole", is_flag=True, help="All frames of each stack.")
@click.option("-o", "--output", "form", type=click.Choice(["json"]), help="All threads of all processes.")
def stacks(job: str, *, options: ClusterOptions, **wanted: object) -> None:
    """Show what each rank of a job is doing: its Python stack, ranks at the same place together.

    An ephemeral container in each pod reads them; the program that trains goes on. Kubernetes keeps such a container in
    the list of its pod until the pod is deleted.

    JOB is a name (mnist), a kind and a name (pytorchjob/mnist), or @latest for the job that was created last.
    """
    run(options, lambda cluster: _stacks(cluster, job, StacksWanted(**wanted)))  # type: ignore[arg-type] # click's types


async def _stacks(cluster: Cluster, name: str, wanted: StacksWanted) -> int:
    document, kind = await cluster.reader.find(cluster.namespace, name)
    target = Target(document, kind, wanted.container)
    all_pods = pods_of_replicas(await cluster.reader.pods(document), document, wanted.replicas)
    pods = [pod for pod in all_pods if pod.phase is Phase.RUNNING and not pod.deleting]
    if not pods:
        click.echo(f"No replica runs: trainshed explain {with_namespace(document)} says why.", err=True)
        return 1
    click.echo(f"Reading the stacks of {plural(len(pods), 'replica')} …", err=True)
    reader = Reader(cluster, target, replace(wanted, image=wanted.image or await image_of_operator(cluster.rest)))
    found = dict(zip((replica_of(pod, document) for pod in pods), await reader.read(pods), strict=True))
    if wanted.form:
        click.echo(json.dumps({replica: as_json(result) for replica, result in found.items()}, indent=2))
    else:
        show(document, found, len(all_pods) - len(pods), whole=wanted.whole)
    for text in reader.advice(found.values()):
        click.echo(text, err=True)
    return 0 if any(rank.frames for rank in view.ranks_in(found)) else 1


async def image_of_operator(rest: RestClient) -> str:
    """Return the image of the operator's Deployment, and that of this version if it is not known.

    The container has rights that the namespace of the job has not given to all: the image of a Deployment that any user
    may have created is not taken.
    """
    from .installation import find_installed  # noqa: PLC0415 - the flags of the operator take a while to import
    from .operators import image  # noqa: PLC0415

    try:
        found = await find_installed(rest)
    except ApiError:
        return IMAGE
    if isinstance(found, Unreadable) or not found.confirmed:
        return IMAGE
    return image(found.deployments[0]) or IMAGE


class Reader:
    """Reads the stacks of pods, some at a time."""

    def __init__(self, cluster: Cluster, target: Target, wanted: StacksWanted) -> None:
        self._containers, self._target, self._wanted = EphemeralContainers(cluster.rest), target, wanted
        self._namespace = str(target.document["metadata"]["namespace"])
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def read(self, pods: Iterable[Pod]) -> list[Result]:
        """Return what each pod has answered, in their order."""
        return await asyncio.gather(*map(self._read, pods))

    async def _read(self, pod: Pod) -> Result:
        async with self._turn:
            try:
                output = await self._containers.output(pod, self._container(pod), self._wanted.timeout)
                return view.parse(output, MOST_THREADS if self._wanted.form else 1)
            except (ApiError, NotRun, NotRead) as error:
                return error

    def _container(self, pod: Pod) -> Document:
        return {
            "name": f"trainshed-stacks-{secrets.token_hex(4)}",
            "image": self._wanted.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python", "-m", "trainshed.stack_dump"],
            "targetContainerName": self._target.container(pod),
            "securityContext": SECURITY,
        }

    def advice(self, results: Iterable[Result]) -> list[str]:
        """Return what to do about refusals, and about an image that cannot be pulled."""
        results = list(results)
        without_image = any(isinstance(result, NoImage) for result in results)
        refused = [str(result) for result in results if isinstance(result, Forbidden)]
        by_policy = any(POD_SECURITY in text for text in refused)
        by_rights = any(POD_SECURITY not in text for text in refused)
        texts = ((NOT_PERMITTED, by_policy), (NO_RIGHT, by_rights), (OTHER_IMAGE, without_image))
        return [text.format(namespace=self._namespace) for text, applies in texts if applies]


def as_json(result: Result) -> object:
    """Return a result as it is printed as JSON."""
    return {"error": one_line(str(result))} if isinstance(result, Exception) else msgspec.to_builtins(result)


def show(document: Document, found: dict[str, Result], others: int, *, whole: bool) -> None:
    """Print the groups of ranks, and then the replicas without stacks, those with the same reason together."""
    ranks = view.ranks_in(found)
    groups = view.grouped(ranks)
    if groups:
        job = f"{full_name(document)} in namespace {document['metadata']['namespace']}"
        click.echo(one_line(f"{job}: {view.headline(groups)}"))
        click.echo()
        click.echo("\n".join(view.lines(groups, whole=whole, option="--whole")))
    for reason, names in view.without_stacks(found, ranks).items():
        click.echo(f"No stack of {listed(names)}: {reason}", err=True)
    if others:
        click.echo(f"{plural(others, 'replica')} without a pod that runs.", err=True)

"""Reads the stacks of a job's ranks by a container beside each: for `trainshed stacks`, and for the page that may."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING

from trainshed.api.job import Document
from trainshed.api.objects import Phase, Pod
from trainshed.client import ApiError, Forbidden
from trainshed.client.ephemeral_containers import EphemeralContainers, NoImage, NotRun
from trainshed.client.job_reader import JobKind
from trainshed.client.transport import RestClient
from trainshed.stack_dump import IMAGE
from trainshed.views import rank_stacks as view
from trainshed.views.diagnosis import Unreadable
from trainshed.views.rank_stacks import NotRead, ReplicaStacks, Result

from .connection import Cluster
from .job_pods import Target, pods_of_replicas, replica_of

if TYPE_CHECKING:
    from trainshed.ui.asked_stacks import ReadStacks

#: The most replicas that are read at a time.
AT_ONCE = 64
#: Seconds after which a replica is given up, and the variable that names another image.
TIMEOUT, IMAGE_VARIABLE = 60.0, "TRAINSHED_IMAGE"
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
    "trainshed stacks --image, or the variable TRAINSHED_IMAGE, names another image with Trainshed, such as that of the"
    " operator:"
    " kubectl get deployments -A -o wide -l app.kubernetes.io/name=trainshed"
)


def that_run(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods whose stacks can be read."""
    return [pod for pod in pods if pod.phase is Phase.RUNNING and not pod.deleting]


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
    """Reads the stacks of pods, some at a time; of each process the first `threads`."""

    def __init__(self, rest: RestClient, target: Target, image: str, timeout: float, threads: int = 1) -> None:
        self._containers, self._target = EphemeralContainers(rest), target
        self._image, self._timeout, self._threads = image, timeout, threads
        self._namespace = str(target.document["metadata"]["namespace"])
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def read(self, pods: Iterable[Pod]) -> list[Result]:
        """Return what each pod has answered, in their order."""
        return await asyncio.gather(*map(self._read, pods))

    async def _read(self, pod: Pod) -> Result:
        async with self._turn:
            try:
                return view.parse(
                    await self._containers.output(pod, self._container(pod), self._timeout), self._threads
                )
            except (ApiError, NotRun, NotRead) as error:
                return error

    def _container(self, pod: Pod) -> Document:
        return {
            "name": f"trainshed-stacks-{secrets.token_hex(4)}",
            "image": self._image,
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


def for_page(cluster: Cluster) -> ReadStacks:
    """Return what reads the stacks of a job for a page."""

    async def read(job: Document, kind: JobKind, most: int) -> ReplicaStacks:
        running = that_run(pods_of_replicas(await cluster.reader.pods(job), job, ()))
        pods = running[:most]
        if not pods:
            return ReplicaStacks({})
        image = os.environ.get(IMAGE_VARIABLE) or await image_of_operator(cluster.rest)
        reader = Reader(cluster.rest, Target(job, kind, ""), image, TIMEOUT)
        found = dict(zip((replica_of(pod, job) for pod in pods), await reader.read(pods), strict=True))
        return ReplicaStacks(found, len(running) - len(pods), tuple(reader.advice(found.values())))

    return read

"""The pods of the replicas that a command is about, and which container of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import click

from trainshed.api.job import Document
from trainshed.api.objects import Pod
from trainshed.client.job_reader import JobKind

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def replica_options(command: CommandT) -> CommandT:
    """Add the options that choose replicas, and a container of them."""
    for option in (
        click.option("-c", "--container", default="", help="The container (default: the one that trains)."),
        click.option(
            "-r", "--replica", "replicas", multiple=True, help="Only this replica, such as worker-0; may be repeated."
        ),
    ):
        command = option(command)
    return command


def replica_of(pod: Pod, job: Document) -> str:
    """Return the name of the replica of a pod, such as worker-0."""
    return pod.name.removeprefix(f"{job['metadata']['name']}-")


def pods_of_replicas(pods: Iterable[Pod], job: Document, replicas: Collection[str]) -> list[Pod]:
    """Return the pods of these replicas, of all if there are none, by role and index."""
    found = sorted(pods, key=lambda pod: (pod.role, pod.index, pod.name))
    return [pod for pod in found if not replicas or {pod.name, replica_of(pod, job)} & set(replicas)]


class Target:
    """A job, and which container of its pods is meant: the one that the user names, else the one that trains."""

    def __init__(self, document: Document, kind: JobKind, named: str) -> None:
        # The planner's models take a while to import, and are not needed before.
        from trainshed.job_facts import framework_containers  # noqa: PLC0415
        from trainshed.plan.failures import own_container  # noqa: PLC0415

        self.document, self.kind, self._named, self._own_container = document, kind, named, own_container
        self._by_role = {} if named else framework_containers(document, kind)

    def container(self, pod: Pod) -> str:
        """Return the name of the container; the first one, as with kubectl, if it is not known which one trains."""
        own = self._own_container(pod, self._by_role.get(pod.role, ""))
        return self._named or next((item.name for item in (own, *pod.containers) if item and not item.init), "")

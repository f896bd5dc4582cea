"""Runs a program beside a container of a pod that runs, in an ephemeral container, with the rights of the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from trainshed.api.coerce import as_mapping, as_sequence, parse_text
from trainshed.api.job import Document
from trainshed.api.objects import Pod

from . import NotFound
from .job_reader import CORE
from .lists import DOCUMENTS
from .transport import Path, RestClient

#: Seconds between two reads of the container's status.
POLL_SECONDS = 1.0
#: The most bytes of output that are read.
MOST_BYTES = 8 * 1024 * 1024


class NotRun(Exception):
    """The program has not run to its end; the message says why."""


class NoImage(NotRun):
    """The node cannot pull the image of the program."""


#: With these reasons the kubelet says that it cannot pull an image. It tries again later, which seldom
#: helps within the time of a command. With the others it has found out that it cannot start the container.
NOT_PULLED = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable")
NEVER_STARTS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


class EphemeralContainers:
    """Runs ephemeral containers; every method may raise an `ApiError`."""

    def __init__(self, rest: RestClient) -> None:
        self._rest = rest

    async def output(self, pod: Pod, container: Document, seconds: float) -> list[bytes]:
        """Add a container to a pod, wait for its end, and return the lines of its output; raises `NotRun`.

        It does not wait for a container that cannot start, and raises `NoImage` if its image cannot be pulled.

        Kubernetes removes an ephemeral container only with its pod: its entry stays in the pod after it has ended.
        """
        await self._add(pod, container)
        name, why = str(container["name"]), "it has not started"
        try:
            async with asyncio.timeout(seconds):
                while "terminated" not in (state := _state(await self._read(pod), name)):
                    why = _why_not_ended(state, str(container.get("image"))) or why
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise NotRun(f"its ephemeral container has not ended within {seconds:.0f} s: {why}") from None
        path, query = Path(CORE, "pods", pod.namespace, pod.name, "log"), {"container": name}
        # Not read as a log is: that cuts long lines.
        content = await self._rest.call("GET", path, query=query | {"limitBytes": str(MOST_BYTES)})
        return content[:MOST_BYTES].splitlines()

    async def _add(self, pod: Pod, container: Document) -> None:
        """Add the container to those that the pod has.

        The list is sent whole. If another one was added meanwhile the server refuses it, as none may be removed.
        """
        document = await self._read(pod)
        known = as_sequence(as_mapping(document.get("spec")).get("ephemeralContainers"))
        body = {"metadata": {"uid": pod.uid}, "spec": {"ephemeralContainers": [*known, container]}}
        await self._rest.call("PATCH", Path(CORE, "pods", pod.namespace, pod.name, "ephemeralcontainers"), body)

    async def _read(self, pod: Pod) -> Document:
        try:
            answer = await self._rest.call("GET", Path(CORE, "pods", pod.namespace, pod.name))
        except NotFound:
            raise NotRun("the pod is gone") from None
        document = DOCUMENTS.answer(answer)
        if as_mapping(document.get("metadata")).get("uid") != pod.uid:
            raise NotRun("another pod has its name now")
        return document


def _state(pod: Document, name: str) -> Mapping[str, Any]:
    """Return the state of an ephemeral container, which the kubelet reports once it has seen it."""
    phase = as_mapping(pod.get("status")).get("phase")
    if phase in ("Succeeded", "Failed"):
        raise NotRun("the pod has ended meanwhile")
    listed = map(as_mapping, as_sequence(as_mapping(pod.get("status")).get("ephemeralContainerStatuses")))
    return next((as_mapping(item.get("state")) for item in listed if item.get("name") == name), {})


def _why_not_ended(state: Mapping[str, Any], image: str) -> str:
    """Return why a container in this state has not ended, "" if the kubelet does not say; raises if it never starts."""
    waiting = as_mapping(state.get("waiting"))
    if not waiting:
        return "it runs" if "running" in state else ""
    reason = parse_text(waiting.get("reason"))
    why = ": ".join(text for key in ("reason", "message") if (text := parse_text(waiting.get(key))))
    if reason in NOT_PULLED:
        raise NoImage(f"the image {image} of the ephemeral container cannot be pulled: {why}")
    if reason in NEVER_STARTS:
        raise NotRun(f"the ephemeral container cannot start: {why}")
    return why

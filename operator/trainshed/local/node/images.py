"""The images that the pods of a run wait for: nothing starts before all of them are on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from .pod_status import CREATING, ContainerRecord


class ImagePuller(Protocol):
    """Gets images for a run."""

    missing: list[str]

    async def pull(self) -> None:
        """Pull the images that are `missing`; raises `StartFailed`."""


class Images:
    """Lets pods wait for images, as on a node; with no `puller` there are none to wait for."""

    def __init__(self, puller: ImagePuller | None = None) -> None:
        self._puller = puller
        self._here = asyncio.Event()

    async def get(self, ended: asyncio.Event) -> None:
        """Pull what is missing, unless the run is `ended` before; raises `StartFailed`."""
        if self._puller is None:
            return
        pulling, ending = asyncio.create_task(self._puller.pull()), asyncio.create_task(ended.wait())
        try:
            await asyncio.wait({pulling, ending}, return_when=asyncio.FIRST_COMPLETED)
            if pulling.done():
                pulling.result()
                self._here.set()
        finally:
            await _cancelled(pulling, ending)

    async def wait(
        self, records: Iterable[ContainerRecord], stopping: asyncio.Event, report: Callable[[], None]
    ) -> None:
        """Let a pod wait until all images are here or it is `stopping`; `report` writes its status, which says that."""
        missing = self._puller.missing if self._puller else ()
        if not missing or self._here.is_set():
            return
        waiting = [one for one in records if one.state == CREATING]
        for one in waiting:
            image = str(one.spec.get("image", ""))
            what = f"image {image} is pulled" if image in missing else "the images of all replicas are here"
            one.wait("ContainerCreating", f"waits until {what}")
        report()
        tasks = [asyncio.create_task(event.wait()) for event in (self._here, stopping)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancelled(*tasks)
        for one in waiting:
            one.state = CREATING


async def _cancelled(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

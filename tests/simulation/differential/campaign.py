"""Many sequences, several at once, each in a namespace that nobody else uses meanwhile."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from support import UserClient
from support.user_client import eventually
from trainshed.client.credentials import find_credentials
from trainshed.client.transport import AiohttpTransport

from .play import Difference, Play
from .sides import Real

#: After so many sequences the figures are written down.
EVERY = 100


class Campaign:
    """Plays the sequences of these seeds; `differences` are those that were there again when played once more.

    `checkpoint` is called now and then.
    """

    def __init__(self, kubeconfig: Path, seeds: Iterable[int]) -> None:
        self.sequences = 0
        self.calls = 0
        self.unsteady = 0
        self.differences: list[Difference] = []
        self.checkpoint: Callable[[Campaign], object] = lambda _campaign: None
        self._kubeconfig = kubeconfig
        self._seeds = iter(seeds)

    def __str__(self) -> str:
        return f"{self.sequences} sequences, {self.calls} calls, {len(self.differences)} differences"

    def figures(self) -> dict[str, int]:
        """What came of it."""
        return {
            "sequences": self.sequences,
            "calls": self.calls,
            "differences": len(self.differences),
            "played_again": self.unsteady,
        }

    async def run(self, workers: int) -> None:
        """Play all."""
        sockets = AiohttpTransport(find_credentials(str(self._kubeconfig)))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work(sockets, f"likeness-{uuid.uuid4().hex[:8]}"))
        finally:
            await sockets.close()

    async def _work(self, sockets: AiohttpTransport, namespace: str) -> None:
        hand = UserClient(self._kubeconfig, namespace)
        await asyncio.to_thread(hand.make_namespace)
        await asyncio.to_thread(eventually, lambda: hand.core("configmaps"))  # the root certificate, of a controller's
        for seed in self._seeds:
            found = await self._play(seed, sockets, namespace)
            if found is not None and await self._play(seed, sockets, namespace) is None:
                self.unsteady += 1  # of the real server's watches, or a controller that took its time
                print(f"not the second time: {found}", flush=True)
            elif found is not None:
                self.differences.append(found)
                print(found, flush=True)
            self.sequences += 1
            if self.sequences % EVERY == 0:
                self.checkpoint(self)

    async def _play(self, seed: int, sockets: AiohttpTransport, namespace: str) -> Difference | None:
        play = Play(seed, Real(sockets), namespace)
        self.calls += len(play.calls)
        return await play.differ()

"""Many sequences, several at a time, each in a namespace of its own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from support import UserClient
from support.user_client import eventually
from trainshed.client.http import HttpTransport
from trainshed.client.kubeconfig import find_credentials

from .comparison import Comparison, Difference
from .sides import Real

#: The number of sequences between two checkpoints.
EVERY = 100


class Campaign:
    """Runs the sequences of these seeds; `differences` are those that occurred again in a second run.

    `checkpoint` is called after every hundred sequences.
    """

    def __init__(self, kubeconfig: Path, seeds: Iterable[int]) -> None:
        self.sequences = 0
        self.calls = 0
        self.repeated = 0
        self.differences: list[Difference] = []
        self.checkpoint: Callable[[Campaign], object] = lambda _campaign: None
        self._kubeconfig = kubeconfig
        self._seeds = iter(seeds)

    def __str__(self) -> str:
        return f"{self.sequences} sequences, {self.calls} calls, {len(self.differences)} differences"

    def figures(self) -> dict[str, int]:
        """Return the results."""
        return {
            "sequences": self.sequences,
            "calls": self.calls,
            "differences": len(self.differences),
            "played_again": self.repeated,
        }

    async def run(self, workers: int) -> None:
        """Run all sequences."""
        sockets = HttpTransport(find_credentials(str(self._kubeconfig)))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work(sockets, f"differential-{uuid.uuid4().hex[:8]}"))
        finally:
            await sockets.close()

    async def _work(self, sockets: HttpTransport, namespace: str) -> None:
        hand = UserClient(self._kubeconfig, namespace)
        await asyncio.to_thread(hand.make_namespace)
        await asyncio.to_thread(
            eventually, lambda: hand.core("configmaps")
        )  # a controller creates the root certificate
        for seed in self._seeds:
            found = await self._compare(seed, sockets, namespace)
            if found is not None and await self._compare(seed, sockets, namespace) is None:
                self.repeated += 1  # a watch of the real server, or a slow controller
                print(f"not in the second run: {found}", flush=True)
            elif found is not None:
                self.differences.append(found)
                print(found, flush=True)
            self.sequences += 1
            if self.sequences % EVERY == 0:
                self.checkpoint(self)

    async def _compare(self, seed: int, sockets: HttpTransport, namespace: str) -> Difference | None:
        comparison = Comparison(seed, Real(sockets), namespace)
        self.calls += len(comparison.calls)
        return await comparison.differ()

"""What goes wrong by chance: replicas die and freeze, lines are cut and shut, and the API server is started again."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp

from chaos.api import Api
from support.user_client import Refused
from testbed.control_plane import ControlPlane

from .replicas import Replica

#: Seconds between two troubles: light enough for jobs to live in between.
BETWEEN = (8.0, 40.0)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/soak"


@dataclass
class Trouble:
    """Makes trouble until it is told to stop. The first replica is never killed: its memory is to be seen for hours."""

    plane: ControlPlane
    api: Api
    survivor: Replica
    mortal: Replica
    counts: Counter[str] = field(default_factory=Counter)
    last: float = 0.0

    async def make(self, until: float) -> None:
        """One trouble after another, until a time of the monotonic clock."""
        while time.monotonic() < until:
            await asyncio.sleep(random.uniform(*BETWEEN))
            trouble = random.choice(TROUBLES)
            self.counts[trouble.__name__] += 1
            with contextlib.suppress(Refused, aiohttp.ClientError, OSError, TimeoutError):
                await trouble(self)
            self.last = time.monotonic()

    @property
    def somebody(self) -> Replica:
        """One of the replicas."""
        return random.choice((self.survivor, self.mortal))


async def kill(found: Trouble) -> None:
    """A replica dies without a warning."""
    found.mortal.send(signal.SIGKILL)


async def end(found: Trouble) -> None:
    """A replica is asked to end."""
    found.mortal.send(signal.SIGTERM)


async def freeze(found: Trouble) -> None:
    """A replica does not get to run for a while, and then goes on."""
    await found.somebody.freeze(random.uniform(3, 25))


async def cut(found: Trouble) -> None:
    """All watches of a replica break off."""
    found.somebody.line.cut()


async def shut(found: Trouble) -> None:
    """A replica does not reach the API server for a while."""
    line = found.somebody.line
    line.shut = True
    line.cut()
    await asyncio.sleep(random.uniform(1, 25))
    line.shut = False


async def lossy(found: Trouble) -> None:
    """A part of the answers to a replica's writes gets lost."""
    line = found.somebody.line
    line.lossy = 200
    await asyncio.sleep(random.uniform(5, 20))
    line.lossy = 0


async def slow(found: Trouble) -> None:
    """Every answer to a replica is late."""
    line = found.somebody.line
    line.delay = random.uniform(0.2, 2)
    await asyncio.sleep(random.uniform(5, 20))
    line.delay = 0.0


async def restart(found: Trouble) -> None:
    """The API server dies, and comes back."""
    await asyncio.to_thread(found.plane.kill_apiserver)
    await asyncio.sleep(random.uniform(0.5, 15))
    await asyncio.to_thread(found.plane.start_apiserver)


async def steal(found: Trouble) -> None:
    """Somebody deletes the Lease."""
    await found.api.call("DELETE", LEASE)


TROUBLES: tuple[Callable[[Trouble], Awaitable[None]], ...] = (
    *(kill, kill, end, freeze, freeze, cut, cut, cut),
    *(shut, shut, lossy, lossy, slow, restart, steal),
)

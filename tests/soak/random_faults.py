"""Random faults: replicas are killed and frozen, connections are cut and refused, the API server is restarted."""

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

from support.user_client import AsyncClient, Refused
from testbed.control_plane import ControlPlane

from .replica import Replica

#: Seconds between two faults: enough for jobs to make progress in between.
BETWEEN = (8.0, 40.0)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/soak"


@dataclass
class RandomFaults:
    """One fault after another. The first replica is never killed: its memory is measured for hours."""

    plane: ControlPlane
    api: AsyncClient
    survivor: Replica
    mortal: Replica
    counts: Counter[str] = field(default_factory=Counter)

    async def inject(self, until: float) -> None:
        """Inject faults until a time of the monotonic clock."""
        while time.monotonic() < until:
            await asyncio.sleep(random.uniform(*BETWEEN))
            fault = random.choice(FAULTS)
            self.counts[fault.__name__] += 1
            with contextlib.suppress(Refused, aiohttp.ClientError, OSError, TimeoutError):
                await fault(self)

    @property
    def any(self) -> Replica:
        """One of the replicas."""
        return random.choice((self.survivor, self.mortal))


async def kill(found: RandomFaults) -> None:
    """A replica is killed."""
    found.mortal.supervisor.operator.signal(signal.SIGKILL)


async def end(found: RandomFaults) -> None:
    """A replica is stopped."""
    found.mortal.supervisor.operator.signal(signal.SIGTERM)


async def freeze(found: RandomFaults) -> None:
    """A replica's process is stopped for a while, and continues."""
    await found.any.supervisor.freeze(random.uniform(3, 25))


async def cut(found: RandomFaults) -> None:
    """All connections of a replica break."""
    found.any.connection.proxy.hang_up()


async def shut(found: RandomFaults) -> None:
    """A replica does not reach the API server for a while."""
    connection = found.any.connection
    connection.shut()
    await asyncio.sleep(random.uniform(1, 25))
    connection.instead = None


async def lossy(found: RandomFaults) -> None:
    """Some answers to a replica's writes are lost."""
    connection = found.any.connection
    connection.lossy = 200
    await asyncio.sleep(random.uniform(5, 20))
    connection.lossy = 0


async def slow(found: RandomFaults) -> None:
    """Every answer to a replica is late."""
    connection = found.any.connection
    connection.delay = random.uniform(0.2, 2)
    await asyncio.sleep(random.uniform(5, 20))
    connection.delay = 0.0


async def restart(found: RandomFaults) -> None:
    """The API server is killed and restarted."""
    await asyncio.to_thread(found.plane.kill_apiserver)
    await asyncio.sleep(random.uniform(0.5, 15))
    await asyncio.to_thread(found.plane.start_apiserver)


async def steal(found: RandomFaults) -> None:
    """The Lease is deleted."""
    await found.api.call("DELETE", LEASE)


FAULTS: tuple[Callable[[RandomFaults], Awaitable[None]], ...] = (
    *(kill, kill, end, freeze, freeze, cut, cut, cut),
    *(shut, shut, lossy, lossy, slow, restart, steal),
)

"""The key: read the settings, open the door."""

from __future__ import annotations

import asyncio
import gc
import logging

import kopf
import uvloop

from trainshed.cli import cli
from trainshed.cluster.credentials import NoCredentials, find
from trainshed.frameworks import FRAMEWORKS
from trainshed.loop.handlers import registry
from trainshed.loop.operator import Operator
from trainshed.settings import Settings

#: Seconds before kopf is started again should it end with an error; our own informers go on meanwhile.
PAUSE = 5.0

log = logging.getLogger("trainshed")


def run(settings: Settings) -> int:
    """Run the operator until it is told to end; the exit code."""
    level = getattr(logging, settings.log_level.upper())
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-7s %(message)s")
    # The caches hold many small objects that stay; looking for garbage among them so often costs more than it frees.
    gc.set_threshold(100_000, 50, 50)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(operate(settings))


async def operate(settings: Settings) -> int:
    """The operator, and kopf around it."""
    try:
        credentials = find(settings.kubeconfig, settings.context)
    except NoCredentials as error:
        log.error("%s", error)  # noqa: TRY400 - the words say it all
        return 1
    frameworks = tuple(framework for framework in FRAMEWORKS if not settings.kinds or framework.kind in settings.kinds)
    operator = Operator(settings, credentials, frameworks)
    log.info("looking after %s at %s", ", ".join(framework.kind for framework in frameworks), credentials.server)
    # Before kopf, which takes whatever task begins after it for one that hangs.
    await operator.start()
    shell = asyncio.create_task(supervise(registry(frameworks, credentials, operator.wake), settings))
    lost = asyncio.create_task(operator.lost.wait())
    await asyncio.wait((shell, lost), return_when=asyncio.FIRST_COMPLETED)
    shell.cancel()
    lost.cancel()
    await asyncio.gather(shell, lost, return_exceptions=True)
    await operator.stop()
    log.info("ended")
    return 1 if operator.lost.is_set() else 0


async def supervise(found: kopf.OperatorRegistry, settings: Settings) -> None:
    """Run kopf until it is told to end by a signal; should it fall over, start it again."""
    where = {"namespaces": [settings.namespace]} if settings.namespace else {"clusterwide": True}
    while True:
        shell = asyncio.create_task(kopf.operator(registry=found, standalone=True, **where))
        try:
            await asyncio.wait((shell,))
        finally:
            shell.cancel()
        error = shell.exception()
        if error is None:
            return
        log.warning("kopf ended with %s: %s; starting it again", type(error).__name__, error)
        await asyncio.sleep(PAUSE)


def main() -> None:
    """Run the command line."""
    cli(obj=run, auto_envvar_prefix="TRAINSHED")


if __name__ == "__main__":
    main()

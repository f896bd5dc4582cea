"""Creates the pods and Services of jobs with a parallel client and nothing else: the least that any operator needs."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.jobs import job
from support.user_client import AsyncClient, where
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.frameworks import served
from trainshed.plan import builders

WIDTH = 32
FRAMEWORKS = {framework.kind: framework for framework in served("v1", ())}


def objects(kind: str, name: str, roles: dict[str, int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the plural and the body of the Services and pods of a job."""
    framework, defaults = FRAMEWORKS[kind], JobDefaults()
    document = job(kind, name, **roles)
    document["metadata"] |= {"namespace": "default", "uid": f"uid-{name}"}
    parsed = parse.job(document, framework, defaults)
    make = builders.pod_maker(framework, parsed, defaults)
    make_service = builders.service_maker(framework, parsed)
    for replica in parsed.all_replicas:
        yield "services", dict(make_service(replica).body)
        yield "pods", dict(make(replica, 0).body)


async def create(kubeconfig: Path, namespace: str, kind: str, jobs: int, roles: dict[str, int]) -> tuple[float, float]:
    """Create everything; return the monotonic times of the beginning and the end."""
    bodies = [each for number in range(jobs) for each in objects(kind, f"job-{number}", roles)]
    remaining = iter(bodies)
    async with AsyncClient(kubeconfig) as client:
        await client.call("GET", where("pods", namespace))

        async def work() -> None:
            for plural, body in remaining:
                await client.call("POST", where(plural, namespace), body)

        began = time.monotonic()
        await asyncio.gather(*(work() for _ in range(WIDTH)))
        return began, time.monotonic()


if __name__ == "__main__":
    file, where_to, of_kind, number, of_roles = sys.argv[1:]
    start, end = asyncio.run(create(Path(file), where_to, of_kind, int(number), json.loads(of_roles)))
    sys.stdout.write(f"{end - start}\n")

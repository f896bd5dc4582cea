"""Jobs of which messages are sent, with a courier that keeps them."""

from __future__ import annotations

import json
from datetime import timedelta

from support.harness import Harness, a_spec
from trainshed.api.framework import JobDefaults
from trainshed.config import NOTIFY_STATES
from trainshed.controller.metrics import Metrics
from trainshed.controller.notifier import Desk, Notifier
from trainshed.controller.observer import Observers
from trainshed.notify.webhooks import BadWebhook, Webhook

ASKS = {"trainshed.dev/notify": "team"}
SITE = JobDefaults(notify=True)


class Team:
    """A courier whose webhook `team` keeps what it gets; `faults` are raised by the next requests, in their order."""

    def __init__(self) -> None:
        self.got: list[dict] = []
        self.faults: list[Exception] = []
        self.known: Webhook | BadWebhook | None = Webhook("https://hooks.example.com/secret")

    def find(self, name: str, namespace: str) -> Webhook | None:
        if isinstance(self.known, BadWebhook):
            raise self.known
        return self.known if (name, namespace) == ("team", "ml") else None

    async def post(self, webhook: Webhook, body: bytes) -> None:
        if self.faults:
            raise self.faults.pop(0)
        self.got.append(json.loads(body))


class NotifiedJob:
    """A job with the messages of the operator that reconciles it; `start` begins another operator."""

    def __init__(self, annotations: dict[str, str] = ASKS, defaults: JobDefaults = SITE, **job: object) -> None:
        self.harness = Harness(job_defaults=defaults)
        self.team, self.events, self.metrics = Team(), [], Metrics()
        self.world = self.harness.world
        spec = a_spec(Worker=2, restart=job.pop("restart", "Never"), policy=job)
        self.world.submit("TFJob", "mnist", spec, annotations)
        self.harness.hear()
        self.start()

    def start(self, states: tuple[str, ...] = NOTIFY_STATES) -> None:
        """Another operator leads: it remembers nothing."""
        desk = Desk(
            states,
            "https://sheds.example.com/",
            lambda _job, event: self.events.append((event.reason, event.message)),
            self.metrics.count_notification,
            self.harness.now,
        )
        self.notifier = Notifier(self.world, self.team, desk)
        self.harness.reconciler._metrics = Observers(self.harness.metrics, self.notifier)

    async def send(self, seconds: float = 5) -> list[str]:
        """Send what is due after some seconds; return the states that the team was sent so far."""
        self.world.now += timedelta(seconds=seconds)
        await self.notifier.flush()
        self.harness.hear()
        return [message["state"] for message in self.team.got]

    async def end(self, phase: str, code: int) -> None:
        for name in self.world.pods:
            self.world.set_pod(name, phase, code=code)
        self.harness.hear()
        await self.harness.reconcile(6, seconds=5)

    def results(self) -> dict[str, float]:
        """The counted messages by what became of them."""
        lines = self.metrics.text().decode().splitlines()
        found = [line.partition('result="')[2] for line in lines if line.startswith("trainshed_notifications_total{")]
        counts = {line.partition('"')[0]: float(line.split()[-1]) for line in found}
        return {result: count for result, count in counts.items() if count}

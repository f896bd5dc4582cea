"""A user of one job in a namespace of its own: the user's requests, and the states that the user waits for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from support.fake_kubelet import AsyncKubelet
from support.user_client import AsyncClient, where

from .history import NamespaceHistory

#: Seconds within which each step must happen, with any fault and on a busy machine.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class JobClient:
    """The user of one job; `versions` are the resourceVersions of their own writes."""

    namespace: str
    api: AsyncClient
    history: NamespaceHistory
    kubelet: AsyncKubelet
    job: dict
    versions: set[str]

    @property
    def plural(self) -> str:
        """The kind of job, as in a path."""
        return f"{self.job['kind'].lower()}s"

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job["metadata"]["name"]

    @property
    def document(self) -> dict | None:
        """The job as it is now."""
        return self.history.now[self.plural].get(self.name)

    @property
    def pods(self) -> dict[str, dict]:
        """The pods, by the part of the name after the job's."""
        return self._members("pods")

    @property
    def services(self) -> dict[str, dict]:
        """The Services, in the same way."""
        return self._members("services")

    @property
    def uids(self) -> dict[str, str]:
        """The UIDs of the pods."""
        return {member: pod["metadata"]["uid"] for member, pod in self.pods.items()}

    def is_true(self, condition: str) -> bool:
        """Return whether a condition of the job is true."""
        return self.history.is_true(self.plural, self.name, condition)

    async def until(self, what: str, question: Callable[[], object]) -> None:
        """Wait for something; raises TimeoutError with its name."""
        try:
            await self.history.until(question, PATIENCE)
        except TimeoutError:
            status = (self.document or {}).get("status")
            raise TimeoutError(f"not within {PATIENCE:.0f} s: {what}; {sorted(self.pods)}; {status}") from None

    async def create(self) -> None:
        """Create the job."""
        made = await self.api.call("POST", where(self.plural, self.namespace), self.job)
        self.versions.add(made["metadata"]["resourceVersion"])

    async def patch(self, **spec: object) -> None:
        """Change the job's spec."""
        changed = await self.api.merge(where(self.plural, self.namespace, self.name), {"spec": spec})
        self.versions.add(changed["metadata"]["resourceVersion"])

    async def delete_pod(self, member: str) -> None:
        """Delete a pod."""
        await self.api.call("DELETE", where("pods", self.namespace, f"{self.name}-{member}"))

    async def running(self, *members: str, old: dict[str, str] | None = None) -> None:
        """Wait until exactly these pods run, none of them `old`, each has its Service, and the job is Running."""
        found = [] if self.plural == "mpijobs" else sorted(members)

        def running() -> bool:
            pods, before = self.pods, (old or {}).values()
            return (
                sorted(pods) == sorted(members)
                and sorted(self.services) == found
                and all(_runs(pod) and pod["metadata"]["uid"] not in before for pod in pods.values())
                and self.is_true("Running")
            )

        await self.until(f"running: {', '.join(members)}", running)

    async def end(self, member: str, code: int) -> None:
        """Let a pod end."""
        await self.kubelet.end(self.pods[member], code)

    def _members(self, plural: str) -> dict[str, dict]:
        return {name.removeprefix(f"{self.name}-"): found for name, found in self.history.now[plural].items()}

    async def nothing_left(self) -> None:
        """Wait until it has neither pods nor Services."""
        await self.until("nothing is left", lambda: not (self.pods or self.services))

    async def says(self, condition: str) -> None:
        """Wait until a condition of the job is true."""
        await self.until(condition, lambda: self.is_true(condition))


def _runs(pod: dict) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]

"""One job in a namespace of its own: what a user and fate do to it, and what they wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .api import Api, where
from .history import Pages
from .kubelet import Kubelet

#: Seconds within which a step of a job's life must be taken, whatever the fault and however busy the machine.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Scene:
    """The stage of one life."""

    namespace: str
    api: Api
    pages: Pages
    kubelet: Kubelet
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
        return self.pages.now[self.plural].get(self.name)

    @property
    def pods(self) -> dict[str, dict]:
        """The pods that are there, by what follows the job's name."""
        return self._members("pods")

    @property
    def services(self) -> dict[str, dict]:
        """The Services that are there, in the same way."""
        return self._members("services")

    @property
    def uids(self) -> dict[str, str]:
        """Which pods these are."""
        return {member: pod["metadata"]["uid"] for member, pod in self.pods.items()}

    def is_true(self, condition: str) -> bool:
        """Whether a condition of the job is true."""
        found = ((self.document or {}).get("status") or {}).get("conditions") or ()
        return any(one["type"] == condition and one["status"] == "True" for one in found)

    async def until(self, what: str, question: Callable[[], object]) -> None:
        """Wait for something; raises TimeoutError with its name."""
        try:
            await self.pages.until(question, PATIENCE)
        except TimeoutError:
            status = (self.document or {}).get("status")
            raise TimeoutError(f"not within {PATIENCE:.0f} s: {what}; {sorted(self.pods)}; {status}") from None

    async def create(self) -> None:
        """Hand the job in."""
        made = await self.api.call("POST", where(self.plural, self.namespace), self.job)
        self.versions.add(made["metadata"]["resourceVersion"])

    async def patch(self, **spec: object) -> None:
        """Change the job's spec."""
        changed = await self.api.merge(where(self.plural, self.namespace, self.name), {"spec": spec})
        self.versions.add(changed["metadata"]["resourceVersion"])

    async def delete_pod(self, member: str) -> None:
        """Take a pod away."""
        await self.api.call("DELETE", where("pods", self.namespace, f"{self.name}-{member}"))

    async def running(self, *members: str, old: dict[str, str] | None = None) -> None:
        """Wait until exactly these pods run, none of them one of the `old`, and are found, and the job says Running."""
        found = [] if self.plural == "mpijobs" else sorted(members)

        def so() -> bool:
            pods, before = self.pods, (old or {}).values()
            return (
                sorted(pods) == sorted(members)
                and sorted(self.services) == found
                and all(_runs(pod) and pod["metadata"]["uid"] not in before for pod in pods.values())
                and self.is_true("Running")
            )

        await self.until(f"running: {', '.join(members)}", so)

    async def end(self, member: str, code: int) -> None:
        """A pod ends."""
        await self.kubelet.end(self.pods[member], code)

    def _members(self, plural: str) -> dict[str, dict]:
        return {name.removeprefix(f"{self.name}-"): found for name, found in self.pages.now[plural].items()}

    async def says(self, condition: str) -> None:
        """Wait until the job says so."""
        await self.until(condition, lambda: self.is_true(condition))


def _runs(pod: dict) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]

"""What an auditor is told: each change that was committed, and each request of the operator where they are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OPERATOR, KUBELET, USER, COLLECTOR = "operator", "kubelet", "user", "gc"
CREATED, MODIFIED, DELETED = "created", "modified", "deleted"
#: A merged or whole object of the API; nobody may change one that was handed to the auditor.
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """An object was created, modified or deleted at `at`, in seconds, by `actor`, which is empty where nobody knows.

    Changes are told in the order in which the server committed them: by resourceVersion. `before` is None for what was
    created, `after` for what was deleted.
    """

    at: float
    actor: str
    verb: str
    plural: str
    before: Object | None
    after: Object | None

    @property
    def object(self) -> Object:
        """The object as it is now, or as it was last."""
        found = self.after if self.after is not None else self.before
        assert found is not None, "a change of nothing"
        return found

    @property
    def vanishing(self) -> bool:
        """Whether somebody has asked, just now, for this object to go."""
        if self.verb == DELETED:
            return "deletionTimestamp" not in (self.before or {}).get("metadata", {})
        told = "deletionTimestamp" in (self.after or {}).get("metadata", {})
        return told and "deletionTimestamp" not in (self.before or {}).get("metadata", {})


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the operator: `verb` and `path` as in HTTP, `status` 0 without an answer; `lost` if none came."""

    at: float
    verb: str
    path: str
    status: int
    lost: bool = False

    @property
    def writes(self) -> bool:
        """Whether it asks for a change of anything but the Lease."""
        return self.verb not in ("GET", "WATCH", "LIST") and "/leases" not in self.path


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken: which oracle says so, about whom, when, and in a sentence how."""

    oracle: str
    about: str
    at: float
    sentence: str

    def __str__(self) -> str:
        return f"{self.oracle} at {self.at:.3f} s, {self.about}: {self.sentence}"

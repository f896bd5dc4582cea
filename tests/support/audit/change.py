"""The input of the auditor: committed changes, and requests of the operator if they are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OPERATOR, KUBELET, USER, COLLECTOR = "operator", "kubelet", "user", "gc"
CREATED, MODIFIED, DELETED = "created", "modified", "deleted"
#: A merged or whole object of the API; it must not be changed after it was handed to the auditor.
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """An object was created, modified or deleted at `at`, in seconds, by `actor`, which is empty if unknown.

    Changes are in the order in which the server committed them: by resourceVersion. `before` is None for a creation,
    `after` for a deletion.
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
    def requests_deletion(self) -> bool:
        """True if this change requests the deletion of the object."""
        if self.verb == DELETED:
            return "deletionTimestamp" not in (self.before or {}).get("metadata", {})
        message = "deletionTimestamp" in (self.after or {}).get("metadata", {})
        return message and "deletionTimestamp" not in (self.before or {}).get("metadata", {})


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
        """True if it writes anything but the Lease."""
        return self.verb not in ("GET", "WATCH", "LIST") and "/leases" not in self.path


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated invariant: the check, the object, the time, and a sentence."""

    oracle: str
    about: str
    at: float
    sentence: str

    def __str__(self) -> str:
        return f"{self.oracle} at {self.at:.3f} s, {self.about}: {self.sentence}"

"""Event reasons and messages of actions: v1's, for success and for failure."""

from __future__ import annotations

from dataclasses import dataclass

from trainshed.api.actions import (
    Action,
    CreatePod,
    CreateService,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    DeleteService,
    Event,
    EventType,
    Snapshot,
)
from trainshed.api.objects import POD_GROUP

NOUNS = {CreatePod: "pod", CreateService: "service", DeletePod: "pod", DeleteService: "service"}


@dataclass(frozen=True, slots=True)
class Words:
    """Events of an action: `what` ends the reason, `done` is the message, `trying` begins the message of an error."""

    what: str
    done: str
    trying: str

    @property
    def success(self) -> Event:
        """The Event for success."""
        return Event(EventType.NORMAL, f"Successful{self.what}", self.done)

    def failure(self, error: Exception) -> Event:
        """Return the Event for this error."""
        return Event(EventType.WARNING, f"Failed{self.what}", f"{self.trying}: {error}")


def words(snapshot: Snapshot, action: Action) -> Words | None:
    """Return the Events of an action, or None for an action without Events."""
    match action:
        case CreatePod() | CreateService():
            return Words(type(action).__name__, f"Created {NOUNS[type(action)]}: {action.name}", "Error creating")
        case DeletePod() | DeleteService():
            return Words(type(action).__name__, f"Deleted {NOUNS[type(action)]}: {action.name}", "Error deleting")
        case DeleteDependent(name=name) if action.resource.kind == POD_GROUP:
            return Words(f"Delete{POD_GROUP}", f"Deleted {POD_GROUP}: {name}", "Error deleting")
        case DeleteJob():
            what = snapshot.framework.naming.ttl_event_reason.removeprefix("Successful")
            return Words(what, f"Deleted job: {snapshot.job.name}", "Error deleting")
    return None

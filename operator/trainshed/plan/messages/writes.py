"""The sentences about what the operator writes: what it has created and deleted, and who prevents or undoes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

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

#: The Event for a status that the API server rejects, followed by the server's message.
STATUS_REJECTED = (
    "The API server rejects the status of this job; the operator does nothing for the job until it is accepted"
)
#: The Event for a status that does not stay as it was written, followed by who changes it: one of the next two, or
#: `status_altered`.
STATUS_REVERTED = "The status of this job is changed by others; the operator does nothing for the job while it is"
STATUS_OVERWRITTEN = "another client, or an admission webhook, overwrites it each time"
FALSE_CONFLICT = "there are conflicts although the job has not changed: an admission webhook changes what is written"


def status_altered(fields: Iterable[str]) -> str:
    """Return who changes these fields of the status."""
    return f"an admission webhook has changed {', '.join(fields)}"


def altered(kind: str, name: str) -> str:
    """Return why an object that was updated is not what was written."""
    return f"{kind} {name} was updated, but an admission webhook has reverted fields of it"


def undone(words: tuple[str, str], name: str, *, by_deletion: bool) -> str:
    """Return why an action, such as `created` and `Service`, is not repeated: others, or a deletion, have undone it."""
    what = " ".join((*words, name))
    if by_deletion:
        return (
            f"{what}, and had to delete it again each time: an admission webhook or another client changes it, or the"
            " job changes all the time"
        )
    return f"{what}, and another client undoes that each time"


def conflicting(kind: str, name: str) -> str:
    """Return why an action whose tries all had a conflict is not repeated for now."""
    return (
        f"{kind} {name} cannot be written, as there is a conflict each time: others change it all the time, or an"
        " admission webhook changes what is written, or its watch is late"
    )


class ActionEvents(msgspec.Struct, frozen=True):
    """The Events of actions of one type: `reason` follows Successful or Failed.

    `done` and the names of the objects are the message of success, `error_prefix` and the error that of a failure.
    """

    reason: str
    done: str
    error_prefix: str

    @property
    def success(self) -> Event:
        """The Event for success, without the names."""
        return Event(EventType.NORMAL, f"Successful{self.reason}", self.done)

    def failure(self, error: Exception) -> Event:
        """Return the Event for this error."""
        return Event(EventType.WARNING, f"Failed{self.reason}", f"{self.error_prefix}: {error}")


ACTION_EVENTS: Mapping[type[Action], ActionEvents] = MappingProxyType(
    {
        CreatePod: ActionEvents("CreatePod", "Created pod", "Error creating"),
        CreateService: ActionEvents("CreateService", "Created service", "Error creating"),
        DeletePod: ActionEvents("DeletePod", "Deleted pod", "Error deleting"),
        DeleteService: ActionEvents("DeleteService", "Deleted service", "Error deleting"),
    }
)
DELETED_GROUP = ActionEvents(f"Delete{POD_GROUP}", f"Deleted {POD_GROUP}", "Error deleting")


def action_events(snapshot: Snapshot, action: Action) -> ActionEvents | None:
    """Return the Events of an action, or None for an action without Events."""
    if found := ACTION_EVENTS.get(type(action)):
        return found
    match action:
        case DeleteDependent() if action.resource.kind == POD_GROUP:
            return DELETED_GROUP
        case DeleteJob():
            reason = snapshot.framework.naming.ttl_event_reason.removeprefix("Successful")
            return ActionEvents(reason, "Deleted job", "Error deleting")
    return None


def success_events(snapshot: Snapshot, actions: Iterable[Action]) -> dict[Event, list[str]]:
    """Return the Events of actions that succeeded, one for each type, with the names of the objects."""
    names: dict[ActionEvents, list[str]] = defaultdict(list)
    for action in actions:
        if events := action_events(snapshot, action):
            names[events].append(snapshot.job.name if isinstance(action, DeleteJob) else action.name)
    return {events.success: found for events, found in names.items()}


def waiting_for_previous_job(reason: str, error: Exception) -> Event:
    """Return the Event that a pod of a deleted job of the same name is still there: once for each job."""
    return Event(EventType.NORMAL, reason, str(error), key=reason)

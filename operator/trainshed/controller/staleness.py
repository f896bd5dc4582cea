"""How current what the cache has of a job and of its pods is."""

from __future__ import annotations

from collections import OrderedDict

from trainshed.api.objects import is_older

from .store import Owner

#: Jobs that have lost pods, of which that is known.
MOST_OWNERS = 10_000


class Staleness:
    """Records per job UID at which versions another process wrote the status, and which jobs have uncertain pods."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[str, str]] = {}
        self._uncertain: set[str] = set()

    def observed_write(self, uid: str, version: str) -> None:
        """Record a status write; its watch event may arrive before the response to the replica's own write."""
        before = self._written.get(uid, ("", ""))
        self._written[uid] = (before[1] or before[0], version)

    def own_write(self, uid: str, version: str) -> None:
        """Mark a recorded status write as the replica's own."""
        before, latest = self._written.get(uid, ("", ""))
        if latest == version:
            self._written[uid] = (before, "")

    def mark_uncertain(self, uid: str) -> None:
        """Mark the pods of a job as uncertain: a list lacked some of them without a preceding DELETED event."""
        self._uncertain.add(uid)

    def mark_certain(self, uid: str) -> None:
        """Remove the mark after the job's pods were listed."""
        self._uncertain.discard(uid)

    def forget(self, uid: str) -> None:
        """Forget a deleted job."""
        self._written.pop(uid, None)
        self._uncertain.discard(uid)

    def is_stale(self, uid: str, latest: str) -> bool:
        """Return whether the pods of this job may differ from the cache, which contains all changes until `latest`."""
        before, last = self._written.get(uid, ("", ""))
        if is_older(latest, last or before):
            return True
        self._written.pop(uid, None)
        return uid in self._uncertain


class GonePods:
    """Which jobs have lost a pod: what the cache has of such a job may be older than that.

    That is known of the MOST_OWNERS jobs that have lost one last, and of each one that is newer than the version until
    which it is not.
    """

    def __init__(self) -> None:
        self._owners: OrderedDict[Owner, str] = OrderedDict()
        self._unknown_until = "0"

    def add(self, owner: Owner, version: str) -> None:
        """Record that a pod of this owner is gone, where the watch of pods is at `version`."""
        self._owners[owner] = version
        self._owners.move_to_end(owner)
        if len(self._owners) > MOST_OWNERS:
            _, self._unknown_until = self._owners.popitem(last=False)

    def has_none_of(self, owner: Owner, version: str) -> bool:
        """Return whether the job, of which the cache has this version, is known to have lost no pod."""
        return owner not in self._owners and is_older(self._unknown_until, version)

"""Staleness: a job is reconciled only if the pod cache is at least as new as the one its status was computed from.

A status describes the pods that its writer had seen. A replica that reads it with an older view of the pods would take
past events for new ones and count a failure twice. That happens when the leader changes while a watch lags, or when two
replicas act. The replica's own status writes contain nothing that its cache does not.

Resource versions of jobs are compared with those of pods: usually both come from the same etcd. Where they do not, the
operator lists pods more often than necessary, or relies on the watch as other controllers do.
"""

from __future__ import annotations

from trainshed.api.objects import is_older


class Horizon:
    """Records per job UID at which versions another process wrote the status, and which jobs have uncertain pods."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[str, str]] = {}
        self._doubtful: set[str] = set()

    def heard(self, uid: str, version: str) -> None:
        """Record a status write; its watch event may arrive before the response to the replica's own write."""
        before = self._written.get(uid, ("", ""))
        self._written[uid] = (before[1] or before[0], version)

    def wrote(self, uid: str, version: str) -> None:
        """Mark a recorded status write as the replica's own."""
        before, latest = self._written.get(uid, ("", ""))
        if latest == version:
            self._written[uid] = (before, "")

    def doubt(self, uid: str) -> None:
        """Mark the pods of a job as uncertain: a list lacked some of them without a preceding DELETED event."""
        self._doubtful.add(uid)

    def cleared(self, uid: str) -> None:
        """Remove the mark after the job's pods were listed."""
        self._doubtful.discard(uid)

    def forget(self, uid: str) -> None:
        """Forget a deleted job."""
        self._written.pop(uid, None)
        self._doubtful.discard(uid)

    def beyond(self, uid: str, latest: str) -> bool:
        """Return whether the pods of this job may differ from the cache, which contains all changes until `latest`."""
        before, last = self._written.get(uid, ("", ""))
        if is_older(latest, last or before):
            return True
        self._written.pop(uid, None)
        return uid in self._doubtful

"""How much of its pods one must have seen to decide about a job: no less than whoever wrote its status.

What a status says of pods was true of those that its writer saw. One who reads it and sees an earlier state of the pods
would take for news what is history, and count a failure twice. That happens when leaders change while a watch lags, or
when there are two. Our own writes say nothing that we have not seen ourselves.

Versions of jobs are compared with versions of pods: they come from one store as a rule. Where they do not, we ask the
server more often than we would have to, or rely on the watch as everybody does.
"""

from __future__ import annotations

from trainshed.cluster.versions import older


class Horizon:
    """Remembers by uid of a job at which versions somebody else has written its status, and who is in doubt."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[str, str]] = {}
        self._doubtful: set[str] = set()

    def heard(self, uid: str, version: str) -> None:
        """A status was written at this version; by whom we may hear before the answer to a write of our own."""
        before = self._written.get(uid, ("", ""))
        self._written[uid] = (before[1] or before[0], version)

    def wrote(self, uid: str, version: str) -> None:
        """It was written by us."""
        before, latest = self._written.get(uid, ("", ""))
        if latest == version:
            self._written[uid] = (before, "")

    def doubt(self, uid: str) -> None:
        """A list has taken pods of this job away without a word about their end."""
        self._doubtful.add(uid)

    def cleared(self, uid: str) -> None:
        """The server was asked for the job's pods."""
        self._doubtful.discard(uid)

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._written.pop(uid, None)
        self._doubtful.discard(uid)

    def beyond(self, uid: str, latest: str) -> bool:
        """Whether pods of this job may be other than those that we know, who have been told of all until `latest`."""
        before, last = self._written.get(uid, ("", ""))
        if older(latest, last or before):
            return True
        self._written.pop(uid, None)
        return uid in self._doubtful

"""What still happens when the jobs of a run are over: pods that are ending have their own grace periods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

#: How often nothing must have changed after the end of the jobs. Checks are counted, because on a busy machine much
#: time may pass in which nothing can change.
CHECKS = 8
#: Seconds: how long that may take, and after which pods are given up that were killed and do not end.
SETTLE, STUCK = 60.0, 10.0
#: The replicas that a line names.
NAMED = 5


class LastPods:
    """Knows since when all jobs are over; `say` prints a line."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._since: float | None = None
        self._changed, self._unchanged = 0.0, 0
        self._said = False

    def start_again(self) -> None:
        """Note that a job is not over."""
        self._since, self._unchanged = None, 0

    def are_over(self, now: float, changed: float, ending: Mapping[str, float], *, terminating: bool) -> bool:
        """Return whether nothing changes any more, or too late, at a time at which all jobs are over.

        `ending` are the pods that have been asked to end, with the times at which they are killed; `terminating` is
        whether some are being deleted, and `changed` when something has changed.
        """
        self._since = now if self._since is None else self._since
        self._unchanged = self._unchanged + 1 if changed == self._changed else 0
        self._changed = changed
        quiet = self._unchanged >= CHECKS
        if quiet and ending and not self._said:
            self._said = True
            most = max(ending.values()) - now
            self._say(f"waiting up to {most:.0f} s for what is ending: {named([*ending])}; Ctrl-C twice kills it")
        latest = max((self._since + SETTLE, *(at + STUCK for at in ending.values())))
        return (quiet and not ending and not terminating) or now > latest


def named(pods: Sequence[str]) -> str:
    """Return the names of the first pods, and how many more there are."""
    return ", ".join(pods[:NAMED]) + (f" and {len(pods) - NAMED} more" if len(pods) > NAMED else "")

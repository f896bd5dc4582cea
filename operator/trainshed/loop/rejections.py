"""Remembers which jobs have a status that the API server rejects, so that each message is reported once."""

from __future__ import annotations

from .view import Key

#: The number of characters of a message that are compared.
KNOWN = 512


class Rejections:
    """The last rejection message for each job."""

    def __init__(self) -> None:
        self._last: dict[Key, str] = {}

    def news(self, key: Key, message: str) -> bool:
        """Return whether this message differs from the job's last one."""
        before, self._last[key] = self._last.get(key), message[:KNOWN]
        return before != self._last[key]

    def forget(self, key: Key) -> None:
        """Forget a job whose status was stored, or a deleted job."""
        self._last.pop(key, None)

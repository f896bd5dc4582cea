"""Which jobs have a status that the API server does not accept, and what it says: each message is reported once."""

from __future__ import annotations

from .view import Key

#: Characters of a message by which it is known again.
KNOWN = 512


class Rejections:
    """Remembers the last message of the server about the status of each job."""

    def __init__(self) -> None:
        self._last: dict[Key, str] = {}

    def news(self, key: Key, message: str) -> bool:
        """Whether this message about the job is another than the last one."""
        before, self._last[key] = self._last.get(key), message[:KNOWN]
        return before != self._last[key]

    def forget(self, key: Key) -> None:
        """The status of the job was stored, or the job is gone."""
        self._last.pop(key, None)

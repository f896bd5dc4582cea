"""What is still to be written to a socket that does not block. The launcher uses it: only standard library."""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Sequence

#: Too many descriptors of this user are on their way in sockets; their reader makes room.
FULL = (errno.EAGAIN, errno.ETOOMANYREFS)


class Outbox:
    """The messages that wait until a socket takes them, in order, each with the descriptors that go with it."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._waiting: deque[tuple[bytes, tuple[int, ...]]] = deque()

    def __len__(self) -> int:
        """Return the number of messages that wait."""
        return len(self._waiting)

    def add(self, content: bytes, descriptors: Sequence[int] = ()) -> None:
        """Add a message; the caller may close the descriptors at once."""
        self._waiting.append((content, tuple(os.dup(found) for found in descriptors)))

    def flush(self) -> None:
        """Write as much as the socket takes; raises OSError if its other end is closed."""
        while self._waiting:
            content, descriptors = self._waiting[0]
            try:
                sent = socket.send_fds(self._socket, [content], [*descriptors])
            except OSError as error:
                if error.errno in FULL:
                    return
                raise
            close(descriptors)  # they went with the first byte
            if sent < len(content):
                self._waiting[0] = (content[sent:], ())
            else:
                self._waiting.popleft()

    def clear(self) -> None:
        """Forget what waits."""
        while self._waiting:
            close(self._waiting.popleft()[1])


def close(descriptors: Sequence[int]) -> None:
    """Close descriptors."""
    for found in descriptors:
        os.close(found)

"""The log of one container of a pod, which can be read on from where it was after an interruption or a restart."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from . import ApiError
from .job_reader import JobReader

#: The time before a line, as RFC 3339.
TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)")
#: A line: when it was written, as RFC 3339 with nanoseconds in UTC, which sorts as text, and what was written.
Stamped = tuple[str, bytes]


def stamped(line: bytes) -> Stamped:
    """Return the parts of a line that the API server gives with `timestamps`.

    The time is empty if there is none: kubelets write lines of their own, such as "unable to retrieve container logs".
    """
    time, _, text = line.partition(b" ")
    return (time.decode(), text) if TIME.fullmatch(time) else ("", line)


class LogStream:
    """The log of a container of a pod, read with the options of the API that `query` returns for one time.

    That time is the latest of the lines that are known, empty at first. `error` is why the log ended early, None
    otherwise.
    """

    def __init__(self, reader: JobReader, namespace: str, pod: str, query: Callable[[str], Mapping[str, str]]) -> None:
        self._reader, self._namespace, self._pod, self._query = reader, namespace, pod, query
        self.error: ApiError | None = None
        self.last = ""
        self._note = b""

    async def lines(self) -> AsyncGenerator[Stamped, None]:
        """Yield the lines that are new since the last call; one of the kubelet's own has the time of the last line."""
        self.error, after = None, self.last
        try:
            async with aclosing(self._reader.log(self._namespace, self._pod, self._query(after))) as log:
                async for content in log:
                    time, text = stamped(content)
                    if time > after:  # `sinceTime` has whole seconds only
                        self.last = max(self.last, time)  # two outputs of a program are not stamped in turn
                        yield time, text
                    elif not time and text not in (b"", self._note):  # the kubelet's own, the same each time
                        self._note = text
                        yield self.last, text
        except ApiError as error:
            self.error = error

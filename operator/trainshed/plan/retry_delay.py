"""The delay before failed replicas are created again."""

from __future__ import annotations

import hashlib
from datetime import timedelta

#: Seconds of back-off before the second retry in a row, and at most; doubled from one retry to the next.
BASE_DELAY, MAX_DELAY = 1, 300
#: Without a failure for this time the next retry has no back-off again.
RESET_AFTER = timedelta(seconds=600)


def backoff_seconds(uid: str, consecutive_failures: int) -> int:
    """Return the seconds of back-off after so many consecutive failures: none after the first, then with jitter by uid.

    A single failure is usually bad luck, and each second costs as many GPUs as the job has. The jitter spreads the
    retries of jobs that failed together.
    """
    if consecutive_failures <= 1:
        return 0
    seconds = min(BASE_DELAY << min(consecutive_failures - 2, 16), MAX_DELAY)
    digest = hashlib.sha256(f"{uid}/{consecutive_failures}".encode()).digest()
    return seconds + seconds * digest[0] // 1024

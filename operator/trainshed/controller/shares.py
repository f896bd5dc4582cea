"""The share of a namespace of what all namespaces have together."""

from __future__ import annotations

#: A namespace may take this part of what is free.
PART = 4


def largest_share(free: int) -> int:
    """Return how much a namespace may have while this much is free: the less, the more the others have; at least 1.

    So a namespace that has nothing always gets something, however many others have all that they may have: of 2,000
    eight of them take 166 each and leave 672, and a hundred take 19 each. The buffers of network switches are shared by
    such dynamic thresholds.
    """
    return max(1, free // PART)

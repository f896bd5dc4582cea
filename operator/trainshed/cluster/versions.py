"""Which of two resourceVersions is the earlier one."""

from __future__ import annotations


def older(version: str, than: str) -> bool:
    """Whether a resourceVersion is the earlier one.

    Those of one server ascend and may be compared as numbers (Kubernetes says so since 1.35). Of any others none is
    older, so that whatever is heard last is the latest.
    """
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)

"""The order of resourceVersions."""

from __future__ import annotations


def older(version: str, than: str) -> bool:
    """Return whether `version` is older than `than`.

    The resourceVersions of one server ascend and may be compared as integers (Kubernetes guarantees this since 1.35). A
    version that is not decimal is never older, so the value received last is taken as the newest.
    """
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)

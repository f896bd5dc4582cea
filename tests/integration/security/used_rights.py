"""The rights that a user has used, from the audit log of an API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .rights import Right

#: The audit annotation with the authorizer's decision: "allow" or "forbid".
DECISION = "authorization.k8s.io/decision"


@dataclass(frozen=True, slots=True)
class UsedRights:
    """The rights that a user has used, and those that the authorizer refused."""

    used: frozenset[Right]
    refused: frozenset[Right]

    def shows(self, right: Right) -> bool:
        """True if a right was used; a cluster-wide right is used by a request in any namespace."""
        return any(
            (used.group, used.resource, used.verb) == (right.group, right.resource, right.verb)
            and right.namespace in ("", used.namespace)
            for used in self.used
        )


def used_rights(audit_log: Path, user: str, since: str = "") -> UsedRights:
    """The rights that a user has used since a time (RFC 3339, UTC), from an audit log.

    `refused` has the decisions of the authorizer only: a terminating namespace, quotas and policies answer 403 as well.
    """
    used, refused = set(), set()
    for right, decision in _decisions(audit_log, user, since):
        (refused if decision == "forbid" else used).add(right)
    return UsedRights(frozenset(used), frozenset(refused))


def _decisions(audit_log: Path, user: str, since: str) -> Iterator[tuple[Right, str]]:
    with audit_log.open() as lines:
        for line in lines:
            if f'"{user}"' not in line or not line.endswith("\n"):  # the last one may be half written
                continue
            entry = json.loads(line)
            target = entry.get("objectRef", {})
            if entry["user"]["username"] != user or "resource" not in target or entry["stageTimestamp"] < since:
                continue
            plural = "/".join(part for part in (target["resource"], target.get("subresource")) if part)
            right = Right(target.get("apiGroup", ""), plural, entry["verb"], target.get("namespace", ""))
            yield right, entry.get("annotations", {}).get(DECISION, "")

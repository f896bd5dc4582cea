"""What somebody has asked of an API server, as rights: what a role would have to grant for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .rights import Right

#: Where an audit entry says what the authorizer has decided: "allow" or "forbid".
DECISION = "authorization.k8s.io/decision"


@dataclass(frozen=True, slots=True)
class Asked:
    """The rights that were used, and those that were missing when they were needed."""

    used: frozenset[Right]
    refused: frozenset[Right]

    def shows(self, right: Right) -> bool:
        """Whether a right was used; one for all namespaces by a request in any."""
        return any(
            (used.group, used.resource, used.verb) == (right.group, right.resource, right.verb)
            and right.namespace in ("", used.namespace)
            for used in self.used
        )


def asked(audit_log: Path, user: str, since: str = "") -> Asked:
    """All that a user has asked since a time, as RFC 3339 has it in UTC, by an API server's audit log.

    Refused is what the authorizer refuses: a namespace that is going away, quotas and policies say 403 as well.
    """
    used, refused = set(), set()
    for right, decision in _decisions(audit_log, user, since):
        (refused if decision == "forbid" else used).add(right)
    return Asked(frozenset(used), frozenset(refused))


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
            yield right, entry["annotations"][DECISION]

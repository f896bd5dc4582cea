"""The examples have run with the rights that the chart grants: this file reads their requests afterwards."""

from __future__ import annotations

from datetime import UTC, datetime

from integration.security.used_rights import used_rights
from testbed import kind

ACCOUNT = "system:serviceaccount:trainshed-system:trainshed"
#: When this file was collected: before the first test of this run.
BEGAN = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_nothing_was_refused_that_the_operator_asked_for() -> None:
    found = used_rights(kind.audit_log(), ACCOUNT, BEGAN)
    assert found.used, "the operator has asked for nothing, not even to stay the leader"
    assert sorted(map(str, found.refused)) == []

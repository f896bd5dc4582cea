"""What a trial of `make chaos` takes for lost with the operator, and for lost by it."""

from __future__ import annotations

import orjson

from chaos.evidence import claimed
from support.api_request import Request
from support.fault_proxy import Passed

STATUS = "/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs/tells/status"


def passed(at: float, stored: int, path: str = STATUS, **status: object) -> Passed:
    """Return a write that came at a time, and what the server said."""
    body = orjson.dumps({"metadata": {}, "status": status})
    return Passed(Request("PATCH", path, body, at=at), stored, b"", stored, at + 1)


def test_a_message_may_be_lost_with_an_operator_that_has_stored_it_as_sent():
    writes = [
        passed(1, 200, conditions=[]),
        passed(2, 200, notified={"state": "Running"}),
        passed(3, 409, notified={"state": "Failed"}),
        passed(4, 200, notified={"state": "Succeeded"}),
        Passed(Request("DELETE", "/api/v1/namespaces/ml/pods/a", at=1), 200, b"", 200, 2),
    ]
    assert claimed(writes, 3.5) == {"Running"}, "what another process has noted is not lost with it"
    assert claimed(writes, 4) == {"Running", "Succeeded"}

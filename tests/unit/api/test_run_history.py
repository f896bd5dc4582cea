"""What is kept of a run on this machine is read as it was written."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from trainshed.api.run_history import RunHistory, decode, encode


def test_a_history_is_read_as_it_was_written():
    ended = datetime(2026, 1, 1, tzinfo=UTC)
    history = RunHistory(ended, ({"kind": "TFJob"},), events=({"reason": "Killed"},), reports={"uid": ({"step": 3},)})
    assert decode(encode(history)) == history


DEEP = b'{"jobs": [' + b'{"a":' * 100_000


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff", b'{"ended": 7}', DEEP], ids=("empty", "list", "bytes", "number", "deep")
)
def test_what_is_no_history_is_refused(content):
    with pytest.raises(msgspec.DecodeError):
        decode(content)

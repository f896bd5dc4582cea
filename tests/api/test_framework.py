"""What a framework says of itself."""

from __future__ import annotations

from trainshed.frameworks import FRAMEWORKS


def test_each_kind_has_v1s_operator_name():
    assert [framework.operator_name for framework in FRAMEWORKS] == ["tfjob-controller", "pytorchjob-controller"]

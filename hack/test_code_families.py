"""The lines of the families are counted, and a share of tests above its limit is an error."""

from __future__ import annotations

import pytest

import code_families

FILES = {
    "operator/trainshed/__main__.py": 10,
    "operator/trainshed/plan/rules.py": 990,
    "tests/unit/plan/test_rules.py": 700,
    "tests/unit/test_config.py": 100,
    "tests/chaos/campaign.py": 200,
    "tests/conftest.py": 5,
    "hack/docs/session.py": 45,
}


def test_lines_are_counted_by_family_and_in_all() -> None:
    families = code_families.counted(FILES.items())
    assert families == {
        "operator/trainshed": 10,
        "operator/trainshed/plan": 990,
        "tests/unit/plan": 700,
        "tests/unit": 100,
        "tests/chaos": 200,
        "tests": 5,
        "hack": 45,
    }
    assert code_families.sums(families) == {"product": 1000, "tests": 1005, "tests and hack": 1050}


@pytest.mark.parametrize(("tests", "named"), [(1.0, []), (1.6, ["tests"]), (1.8, ["tests", "tests and hack"])])
def test_a_share_above_its_limit_is_named(tests: float, named: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_families, "MOST", {"tests": 1.5, "tests and hack": 1.7})
    found = {"product": 1000, "tests": int(tests * 1000), "tests and hack": int(tests * 1000) + 50}
    assert [sentence.partition(":")[0] for sentence in code_families.excess(found)] == named

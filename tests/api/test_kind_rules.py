"""The rules that only jobs of one kind must keep; rig/bad_jobs.py has the jobs that break them."""

from __future__ import annotations

from trainshed.api.kind_rules import kind_rules
from trainshed.frameworks import FRAMEWORKS


def test_a_rule_of_one_kind_speaks_of_that_kinds_fields():
    for framework in FRAMEWORKS:
        for rule in kind_rules(framework):
            assert framework.field in rule.message or "self.spec." in rule.cel
            assert rule.message.startswith("spec.")

"""The rules without a cluster; tests/integration/test_admission.py compares them with the API server's answers."""

from __future__ import annotations

import pytest

from support.bad_jobs import BAD, GOOD
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.api.spec import Level
from trainshed.api.validation import roles, rules
from trainshed.frameworks import FRAMEWORKS
from trainshed.frameworks.pytorch import PYTORCH
from trainshed.frameworks.tensorflow import TENSORFLOW

KINDS = {framework.kind: framework for framework in FRAMEWORKS}


@pytest.mark.fault("J4")
@pytest.mark.parametrize(("job", "words"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_cannot_be_is_named(job, words):
    problems = parse.job(job, KINDS[job["kind"]], JobDefaults()).problems
    assert any(words.split("|")[0] in problem for problem in problems), problems


@pytest.mark.parametrize("job", [case[1] for case in GOOD], ids=[case[0] for case in GOOD])
def test_what_can_be_is_let_through(job):
    assert parse.job(job, KINDS[job["kind"]], JobDefaults()).problems == ()


def test_every_rule_has_words_of_its_own():
    for framework in FRAMEWORKS:
        messages = [rule.message for rule in rules(framework)]
        assert len(set(messages)) == len(messages)


def test_only_tensorflow_takes_roles_in_any_case():
    assert roles(TENSORFLOW)[0] == "chief"
    assert roles(PYTORCH) == ("Master", "Worker")


def test_a_rule_of_one_kind_is_about_a_field_of_that_kind():
    for framework in FRAMEWORKS:
        for rule in framework.rules:
            assert framework.field in rule.message or rule.level is Level.SPEC
            assert rule.message.startswith("spec.")

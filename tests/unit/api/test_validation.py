"""The rules without a cluster; tests/integration/test_admission.py compares them with the API server's answers."""

from __future__ import annotations

import pytest

from support.bad_jobs import BAD, GOOD
from support.builders import T0, a_pod, at
from support.replace import replace
from trainshed.api import parse
from trainshed.api.actions import CreatePod, Snapshot
from trainshed.api.framework import JobDefaults
from trainshed.api.job import RunPolicy
from trainshed.api.spec import Level
from trainshed.api.status import ReplicaStatus, Status
from trainshed.api.validation import roles, rules
from trainshed.frameworks import FRAMEWORKS
from trainshed.frameworks.pytorch import PYTORCH
from trainshed.frameworks.tensorflow import TENSORFLOW
from trainshed.plan import plan

KINDS = {framework.kind: framework for framework in FRAMEWORKS}


@pytest.mark.fault("J4")
@pytest.mark.parametrize(("job", "words"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_cannot_be_is_named(job, words):
    problems = parse.job(job, KINDS[job["kind"]], JobDefaults()).problems
    assert any(words.split("|")[0] in problem for problem in problems), problems


@pytest.mark.parametrize("job", [case[1] for case in BAD], ids=[case[0] for case in BAD])
@pytest.mark.parametrize("policy", [RunPolicy(), RunPolicy(suspend=True), RunPolicy(deadline=1)], ids=str)
def test_a_job_that_becomes_invalid_has_a_plan_in_each_state(job, policy):
    framework = KINDS[job["kind"]]
    found = replace(parse.job(job, framework, JobDefaults()), policy=policy)
    begun = Status(start=T0)
    for status in (Status(), begun, replace(begun, replica_statuses={"Worker": ReplicaStatus(active=1)})):
        for pods in ((), (a_pod("worker-0"),), (a_pod("worker-0", "Succeeded", code=0),)):
            snapshot = Snapshot(found, framework, JobDefaults(), status, pods, (), at(60))
            assert not any(isinstance(action, CreatePod) for action in plan(snapshot).actions)


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

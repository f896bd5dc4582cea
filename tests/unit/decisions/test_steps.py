"""What a decision saw, why it was made and what followed, in sentences that people understand."""

from __future__ import annotations

import pytest

from support.builders import T0, a_job, at, pods_of, seen
from support.decided import FAILED, JOB, RUNS
from support.replace import replace
from trainshed import plan as planner
from trainshed.api.actions import ApiRefusal, Snapshot
from trainshed.api.trainer_status import TrainerStatus
from trainshed.decisions.recording import Decision, Encoder, decode
from trainshed.decisions.steps import SENTENCES, about_pod, as_json, steps, why_deleted
from trainshed.plan.rules import RULES


def kept(*snapshots: Snapshot) -> list[Decision]:
    """Return the decisions about some snapshots."""
    encoder = Encoder("1.0")
    return decode([encoder.line(one, planner.plan(one)) for one in snapshots])


def steps_of(*snapshots: Snapshot):
    """Return the steps about some snapshots."""
    return [*steps(kept(*snapshots))]


def test_the_step_of_a_failure_has_its_rule_and_what_followed():
    begin, failure = steps_of(RUNS, FAILED)
    assert begin.facts == ("the job of 3 replicas has 3 pods, its state is Running",)
    assert failure.facts == (
        "pod mnist-worker-1 is Failed",
        "container pytorch of pod mnist-worker-1 has ended with exit code 137 (OOMKilled)",
    )
    assert (failure.rule, failure.why) == ("restart", SENTENCES["restart"])
    assert "status: Restarting is True" in " ".join(failure.actions)
    assert "status: Worker is in attempt 1" in failure.actions
    assert "Event PyTorchJobRestarting" in " ".join(failure.actions)
    assert any(one.startswith("delete pod") and "mnist-worker-1" in one for one in failure.actions)
    assert as_json(failure)["rule"] == "restart"
    assert [step.n for step in about_pod([begin, failure], "mnist-worker-1")] == [2]


def test_all_rules_have_a_sentence():
    assert {rule.__name__ for rule in RULES} == set(SENTENCES)
    assert all(sentence.endswith(".") for sentence in SENTENCES.values())


CHANGED = (
    ({"job": replace(JOB, generation=2)}, "the spec has changed (generation 1 to 2)"),
    ({"job": replace(JOB, policy=replace(JOB.policy, suspend=True))}, "the spec says suspend"),
    ({"job": replace(JOB, deleting=True)}, "a user has deleted the job"),
    ({"refusal": ApiRefusal("Forbidden", "quota")}, "the API server has refused a pod: Forbidden: quota"),
    ({"training": TrainerStatus(T0, step=12)}, "the training has reported step 12"),
    ({"pods": RUNS.pods[:1]}, "pods mnist-worker-0, mnist-worker-1 are gone"),
    ({"now": at(20)}, "only time has passed: 10 s"),
)


@pytest.mark.parametrize(("change", "fact"), CHANGED)
def test_a_change_is_a_fact(change: dict, fact: str):
    assert steps_of(RUNS, replace(RUNS, **change))[1].facts == (fact,)


def test_what_is_no_longer_so_is_a_fact():
    suspended = replace(RUNS, job=replace(JOB, policy=replace(JOB.policy, suspend=True)))
    refused = replace(suspended, refusal=ApiRefusal("Forbidden", "quota"))
    assert steps_of(refused, RUNS)[1].facts == ("the spec no longer says suspend", "the API server accepts pods again")


POD = pods_of(JOB)[2]
OF_PODS = (
    ({"disruption": "EvictionByEvictionAPI"}, "pod mnist-worker-1 is to be evicted: EvictionByEvictionAPI"),
    ({"deleting": True}, "pod mnist-worker-1 is being deleted"),
    ({"node": "node-a"}, "pod mnist-worker-1 is on node-a"),
    ({"phase": "Failed", "reason": "Evicted"}, "pod mnist-worker-1 is Failed (Evicted)"),
    (
        {"containers": (replace(POD.containers[0], restarts=1),)},
        "the kubelet has started container pytorch of pod mnist-worker-1 again",
    ),
)


@pytest.mark.parametrize(("change", "fact"), OF_PODS)
def test_a_change_of_a_pod_is_a_fact(change: dict, fact: str):
    after = replace(RUNS, pods=(*RUNS.pods[:2], replace(POD, **change)))
    assert fact in steps_of(RUNS, after)[1].facts


def test_a_pod_that_appears_is_named_and_many_are_counted():
    job = a_job(worker=9)
    snapshots = seen(job), replace(seen(job, *pods_of(job)), pods=tuple(pods_of(job)))
    first, second = steps_of(*snapshots)
    assert "create pods mnist-worker-0" in first.actions[-1]
    assert first.actions[-1].endswith("mnist-worker-5 and 3 more")
    assert second.facts[0].endswith("and 3 more are there, Running")


def test_why_a_pod_went_is_a_sentence():
    gone = replace(FAILED, pods=FAILED.pods[:2], now=at(70))
    restarted, *rest = why_deleted(kept(RUNS, FAILED, gone), "mnist-worker-1")
    assert restarted.startswith("decision 2 deleted mnist-worker-1 at 2026-01-01 12:01:01Z by the rule restart: ")
    assert rest == []
    (others,) = why_deleted(kept(RUNS, replace(RUNS, pods=RUNS.pods[:2])), "mnist-worker-1")
    assert others.endswith("another client deleted it")
    evicted = replace(RUNS, pods=(*RUNS.pods[:2], replace(POD, disruption="Preemption")))
    first, second = kept(evicted, replace(RUNS, pods=RUNS.pods[:2]))
    (others,) = why_deleted([replace(first, plan={}), second], "mnist-worker-1")
    assert others.endswith("it was disrupted: Preemption")
    assert why_deleted(kept(RUNS), "mnist-worker-1") == []


def test_what_is_not_known_is_said():
    first, second = kept(RUNS, FAILED)
    unknown = replace(second, saw=None, unread="the job is too large", missed=3, rule="later")
    begin, step = steps([first, unknown])
    assert begin.notes == ()
    assert step.notes == (
        "3 decisions before this one were not kept",
        "what the planner saw is not known: the job is too large",
    )
    assert (step.facts, step.why) == (("what changed is not known",), "")
    assert why_deleted([unknown], "mnist-worker-1")
    _, after = steps([first, replace(second, after_restart=True)])
    assert after.notes[0].startswith("the operator started again")
    assert next(steps([replace(second, after_restart=True)])).notes == next(steps([second])).notes
    assert next(steps([second])).notes == ("the record begins here: earlier decisions are not in it",)
    odd = replace(second, plan={"actions": [["NewAction", {"resource": {"kind": "Lease"}, "name": "a"}], 7]})
    assert next(steps([odd])).actions == ("NewAction Lease a", "")

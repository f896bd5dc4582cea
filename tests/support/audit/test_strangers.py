"""V6: whose the operator's deletions are, and until when it may not know better."""

from __future__ import annotations

import pytest

from .change import USER
from .stories import FAR, Story


@pytest.mark.parametrize(("policy", "broken"), [("Running", {"V6"}), ("All", set())])
def test_a_pod_that_has_ended_is_cleaned_up_only_if_the_policy_says_so(policy, broken):
    story = Story()
    story.pod("job-worker-0", story.job(Worker=1, policy={"cleanPodPolicy": policy}))
    story.ends("job-worker-0", 0)
    story.status("jaxjobs", states="Created Succeeded", completionTime=FAR)
    assert story.broken == set()
    story.delete("pods", "job-worker-0")
    assert story.broken == broken


@pytest.mark.parametrize(
    ("said", "broken"), [("", set()), ("Job job was active longer than specified deadline", {"V6"})]
)
def test_a_pod_that_has_ended_is_not_among_those_that_a_limit_stops(said, broken):
    story = Story()
    story.pod("job-worker-0", story.job(Worker=1))
    story.ends("job-worker-0", 137)
    story.status("jaxjobs", states="Created Failed", said=said, completionTime=FAR)
    story.delete("pods", "job-worker-0")
    assert story.broken & {"V6"} == broken


@pytest.mark.parametrize(("attempt", "broken"), [(0, set()), (1, {"V6"})])
def test_of_an_attempt_that_was_given_up_a_pod_may_go_whatever_the_policy_says_of_the_end(attempt, broken):
    story = Story()
    story.pod("job-worker-0", story.job(Worker=1, policy={"cleanPodPolicy": "Running"}), attempt=attempt)
    story.ends("job-worker-0", 137)
    story.status("jaxjobs", states="Created Failed", completionTime=FAR, attempts={"Worker": 1})
    story.delete("pods", "job-worker-0")
    assert story.broken & {"V6"} == broken


@pytest.mark.parametrize(("later", "deaf", "broken"), [(10, 0, set()), (60, 0, {"V6"}), (60, 50, set())])
def test_a_pod_that_lost_its_owner_may_be_deleted_until_the_operator_must_have_heard_of_it(later, deaf, broken):
    story = Story()
    story.auditor.ledger.deaf = deaf
    story.pod("job-worker-0", story.job(Worker=1))
    story.change("pods", "job-worker-0", USER, lambda pod: pod["metadata"].update(ownerReferences=[]))
    story.now += later
    story.delete("pods", "job-worker-0")
    assert story.broken == broken

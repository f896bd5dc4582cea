"""A status stays small for jobs of 100,000 replicas, and for pods with extreme content."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.builders import a_job, a_pod, at, plan_for, replace, run_policy
from trainshed.api import coerce, status_codec
from trainshed.api.indexes import Indexes
from trainshed.api.objects import Container
from trainshed.api.status import ReplicaStatus, Restart, Status, Waiting
from trainshed.api.training import trainer_status
from trainshed.plan.restarts import MAX_PENDING_REPLACEMENTS

LIMIT = 16_384
MANY = 100_000
#: Long, of any characters, and some that swell in JSON.
WORDS = st.text(st.sampled_from('ab<&"\\\n\x1b[31m\u2028ü€😀'), min_size=1, max_size=40).map(lambda text: text * 60)
JOB = a_job(chief=1, ps=1, worker=MANY, restart="ExitCode", policy=run_policy(backoff_limit=99), name="n" * 50)
ALTERNATING = Indexes.of(range(MANY - 1, 0, -2))


def troubled(index: int, words: str, code: int | None, reason: str):
    """A worker that has failed, with all that its kubelet may say."""
    ended = Container("tensorflow", exit_code=code, reason=reason, message=words, started=at(0), finished=at(9))
    fields = {"node": words[:253], "message": words, "reason": "" if code else reason, "containers": (ended,)}
    return a_pod(f"worker-{index}", "Failed", job=JOB.name, uid=f"{index:036}", **fields)


@pytest.mark.slow
@settings(max_examples=2, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=3), st.sampled_from([137, 1, None]), WORDS, st.booleans())
@example(words=["1<<<" * 60], code=137, reason="<" * 60, blocked=False)
@example(words=["[ü😀" * 60], code=137, reason="€" * 60, blocked=True)
def test_whatever_pods_say_the_status_of_a_big_job_stays_small_and_tells_the_same_again(words, code, reason, blocked):
    pods = [troubled(2 * index, words[index % len(words)], code, reason) for index in range(70)]
    seen = {"now": at(10), "services": (), "refusal": (reason[:40], words[0] * 9) if blocked else None}
    replica_statuses = {"Worker": ReplicaStatus(succeeded=len(ALTERNATING), done=ALTERNATING)}
    restart = Restart(at(0), 99, "worker-99999", "n" * 253, "Infrastructure", reason, 137, MANY, 10**6)
    status = Status(replica_statuses=replica_statuses, start=at(-9), recent_restarts=(restart,) * 10)
    decision = plan_for(JOB, *pods, a_pod("ps-0", "Pending", job=JOB.name), status=status, **seen)
    document = status_codec.status_patch(JOB, Status(), decision.status)["status"]
    assert coerce.json_size(document) < LIMIT
    report = trainer_status(at(0), [(f"{number}{words[0]}", words[0]) for number in range(99)], step=1, total_steps=9)
    item = Waiting("W" * 64, "0,2," * 16, MANY, "r" * 64, words[0][:400], at(0), "n" * 64, "c" * 64)
    fuller = status_codec.status_patch(JOB, Status(), replace(decision.status, waiting=(item,) * 9, trainer=report))[
        "status"
    ]
    assert coerce.json_size(fuller) < LIMIT
    stored = status_codec.parse_status({"status": document})
    assert stored.replica_statuses["Worker"].done == ALTERNATING
    assert stored.failure.replica == "worker-0"
    assert stored.over or len(stored.pending_replacement) == MAX_PENDING_REPLACEMENTS
    for _ in range(2):  # that pods cannot be made, and how many there are, is said once the restart is
        before = stored
        again = plan_for(JOB, *pods, a_pod("ps-0", "Pending", job=JOB.name), status=before, **seen).status
        stored = status_codec.parse_status({"status": status_codec.status_document(again)})
    counted = replace(before, replica_statuses=again.replica_statuses)
    assert status_codec.status_document(again) == status_codec.status_document(counted), (
        "there is nothing to store a second time but counts"
    )

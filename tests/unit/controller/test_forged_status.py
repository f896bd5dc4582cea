"""A forged status causes no crash, no endless writes and no loss of what the pods show."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.harness import Harness, a_spec
from support.world import KINDS

LARGEST = 2**31 - 1
NUMBERS = st.sampled_from([0, 1, 5, 999_999_999, 1_000_000_000, LARGEST])
TIMES = st.sampled_from(["1970-01-01T00:00:00Z", "2026-01-01T12:00:00Z", "9999-12-31T23:59:59Z", "soon"])
TEXTS = st.sampled_from(["", "0-1", "0-999999999", "a", "mnist-worker-0", "\u0000"])
CONDITIONS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["Created", "Running", "Restarting", "Suspended", "Blocked", "Other"]),
        "status": st.sampled_from(["True", "False", "Perhaps"]),
    },
    optional={"reason": TEXTS, "message": TEXTS, "lastUpdateTime": TIMES, "lastTransitionTime": TIMES},
)
ROLES = st.sampled_from(["Worker", "Chief", "Unknown"])
FORGED = st.fixed_dictionaries(
    {},
    optional={
        "conditions": st.lists(CONDITIONS, max_size=4),
        "attempts": st.dictionaries(ROLES, NUMBERS, max_size=3),
        "restarts": NUMBERS,
        "retry": st.fixed_dictionaries(
            {}, optional={"consecutiveFailures": NUMBERS, "nextRetryTime": TIMES, "containerRestarts": NUMBERS}
        ),
        "podsPendingReplacement": st.lists(TEXTS, max_size=3),
        "replicaStatuses": st.dictionaries(
            ROLES, st.fixed_dictionaries({}, optional={"succeeded": NUMBERS, "completedIndexes": TEXTS}), max_size=2
        ),
        "failure": st.fixed_dictionaries({"time": TIMES}, optional={"pod": TEXTS, "exitCode": NUMBERS, "class": TEXTS}),
        "startTime": TIMES,
        "completionTime": TIMES,
    },
)


async def forge(harness: Harness, status: dict) -> None:
    """Overwrite the status as another client would."""
    job = harness.job()
    gone = {key: None for key in job.get("status", {}) if key not in status}
    patch = {"metadata": job["metadata"], "status": gone | status}
    await harness.world.store_status(KINDS["TFJob"], "ml", "mnist", patch)
    harness.hear()


async def live(harness: Harness, reconciles: int) -> None:
    """Run the pods, complete deletions, and reconcile every second."""
    for _ in range(reconciles):
        for pod in list(harness.world.pods.values()):
            if pod.deleting:
                harness.world.confirm_deletion(pod.name)
            elif pod.phase == "Pending":
                harness.world.set_pod(pod.name, "Running")
        harness.hear()
        outcome = await harness.reconcile(seconds=1)
        assert outcome.error is None


@pytest.mark.slow
@pytest.mark.fault("I11")
@given(FORGED)
@settings(max_examples=60, deadline=None)
def test_a_forged_status_causes_no_endless_writes(status):
    async def story() -> None:
        harness = Harness(a_spec(Chief=1, Worker=2, restart="ExitCode"))
        await live(harness, 6)
        made = len(harness.world.made)
        await forge(harness, status)
        await live(harness, 12)
        assert len(harness.world.made) - made <= 6, "at most two sets of pods"
        mark = len(harness.world.writes)
        await live(harness, 5)
        assert harness.since(mark) == []

    asyncio.run(story())


@pytest.mark.fault("I11")
async def test_a_wiped_status_is_recovered_and_the_backoff_limit_holds():
    harness = Harness(a_spec(Chief=1, Worker=2, restart="ExitCode", policy={"backoffLimit": 3}))
    await live(harness, 6)
    for used in (1, 2, 3):
        harness.world.set_pod("mnist-worker-0", "Failed", code=137)
        await live(harness, 12)
        assert harness.job()["status"]["restarts"] == used
    made = len(harness.world.made)
    await forge(harness, {})
    await live(harness, 3)
    assert harness.job()["status"]["restarts"] == 3
    assert harness.states()[-1] == "Running"
    assert len(harness.world.made) == made, "running pods stay"
    harness.world.set_pod("mnist-worker-0", "Failed", code=137)
    await live(harness, 12)
    assert harness.states()[-1] == "Failed"


@pytest.mark.parametrize("count", [1_000_000_000, LARGEST - 1])
async def test_the_highest_attempts_are_recovered_from_pods(count):
    harness = Harness(a_spec(Chief=1, Worker=2, restart="ExitCode"))
    await live(harness, 6)
    await forge(harness, harness.job()["status"] | {"attempts": {"Chief": count, "Worker": count}})
    await live(harness, 12)
    assert {pod.attempt for pod in harness.world.pods.values()} == {count + 1}, "the deleted pods are lost"
    made = len(harness.world.made)
    await live(harness, 12)
    assert len(harness.world.made) == made

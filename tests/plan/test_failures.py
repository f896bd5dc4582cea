"""What a pod's end says."""

from __future__ import annotations

import pytest

from make import a_pod, at
from trainshed.api.pod import Container
from trainshed.plan.failures import LAST_WORDS, failure, main


def told(pod):
    found = failure(pod, "tensorflow", at(99))
    return found and (found.kind, found.reason, found.exit_code)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (a_pod("worker-0"), None),
        (a_pod("worker-0", "Pending"), None),
        (a_pod("worker-0", "Succeeded", code=0, deleting=True), None),
        (a_pod("worker-0", "Failed", code=1), ("Application", "Error", 1)),
        (a_pod("worker-0", "Failed", code=137, why="OOMKilled"), ("Application", "OOMKilled", 137)),
        (a_pod("worker-0", "Failed", code=1, deleting=True), ("Disruption", "Deleted", None)),
        (
            a_pod("worker-0", "Running", disruption="EvictionByEvictionAPI"),
            ("Disruption", "EvictionByEvictionAPI", None),
        ),
        (a_pod("worker-0", "Failed", code=137, reason="Evicted"), ("Disruption", "Evicted", None)),
        (a_pod("worker-0", "Failed", containers=()), ("Infrastructure", "NoExitCode", None)),
        (
            a_pod("worker-0", "Failed", reason="UnexpectedAdmissionError"),
            ("Infrastructure", "UnexpectedAdmissionError", None),
        ),
    ],
)
def test_each_end_has_its_class(pod, expected):
    assert told(pod) == expected


def test_the_frameworks_own_container_speaks_first_and_another_if_it_ended_well():
    sidecar, own = Container("sidecar", exit_code=9), Container("tensorflow", exit_code=3)
    assert told(a_pod("worker-0", "Failed", containers=(sidecar, own))) == ("Application", "Error", 3)
    well = Container("tensorflow", exit_code=0)
    assert told(a_pod("worker-0", "Failed", containers=(sidecar, well))) == ("Application", "Error", 9)
    assert told(a_pod("worker-0", "Failed", containers=(well,))) == ("Application", "Error", 0)
    assert main(a_pod("worker-0", containers=(Container("init", init=True), sidecar)), "tensorflow") == sidecar


def test_the_last_words_are_kept_from_their_end():
    found = failure(a_pod("worker-0", "Failed", code=1, words="x" * 5000 + "the end\n"), "tensorflow", at(99))
    assert len(found.message) == LAST_WORDS
    assert found.message.endswith("the end")
    assert found.time == at(0)
    silent = failure(a_pod("worker-0", "Failed", reason="Evicted", message="low on memory"), "tensorflow", at(99))
    assert (silent.message, silent.time) == ("low on memory", at(99))

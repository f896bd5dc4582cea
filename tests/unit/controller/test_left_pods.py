"""What is remembered of pods that have left the watch is little, and who has much of it displaces nothing of others."""

from __future__ import annotations

import pytest

from support.builders import T0, a_job, a_pod, seen
from support.replace import replace
from trainshed.api.status import Status
from trainshed.controller.left_pods import HiddenPods, LeftPods, LostPods, UnwatchedPods

JOBS = {
    (namespace, uid): replace(a_job(worker=1000), namespace=namespace, uid=uid)
    for namespace, uid in (("quiet", "one"), ("noisy", "small"), ("noisy", "big"))
}


@pytest.fixture
def memory(monkeypatch):
    for limited in (HiddenPods, LostPods, UnwatchedPods):
        monkeypatch.setattr(limited, "MOST", 5)
    return LeftPods(lambda owner: (JOBS[owner], Status()) if owner in JOBS else None, releases=True)


def leave(memory: LeftPods, job: str, *replicas: str) -> None:
    namespace, owner = job.split("/")
    for replica in replicas:
        pod = a_pod(replica, uid=f"{job}/{replica}", has_finalizer=True)
        pod = replace(pod, namespace=namespace, owner=owner)
        memory.left(pod.uid, pod)
        memory.lost(pod)


def known(memory: LeftPods, job: str) -> list[list[str]]:
    """Return the names of the pods that may be hidden, of those that were lost, and of those with the finalizer."""
    namespace, owner = job.split("/")
    snapshot = memory.in_snapshot(replace(seen(JOBS[namespace, owner]), now=T0))
    hidden = [pod.name for pod in memory.hidden.all() if pod.uid.startswith(job)]
    return [[pod.name for pod in snapshot.unwatched], [pod.name for pod in snapshot.lost_pods], hidden]


def test_who_has_most_pods_that_left_the_watch_displaces_none_of_others(memory):
    leave(memory, "quiet/one", "worker-0")
    leave(memory, "noisy/small", "worker-0")
    leave(memory, "noisy/big", *(f"worker-{number}" for number in range(100)))
    for other in ("quiet/one", "noisy/small"):
        assert known(memory, other) == [["mnist-worker-0"]] * 3
    assert known(memory, "noisy/big") == [["mnist-worker-97", "mnist-worker-98", "mnist-worker-99"]] * 3


def test_names_that_users_invent_displace_none_that_the_spec_requests(memory):
    invented = [f"worker-{number}" for number in range(1000, 2000)]
    leave(memory, "quiet/one", "worker-999", *invented)
    unwatched, lost, _ = known(memory, "quiet/one")
    assert (unwatched[0], unwatched[-1], lost) == ("mnist-worker-999", "mnist-worker-1999", ["mnist-worker-999"])
    assert len(unwatched) == 1 + UnwatchedPods.MOST_OTHERS_OF_JOB


@pytest.mark.parametrize("replica", ["worker-5", "worker-5000"])
def test_what_was_forgotten_of_a_job_is_looked_up_before_its_counts_are_certain(memory, monkeypatch, replica):
    snapshot = replace(seen(JOBS["noisy", "big"]), now=T0)
    leave(memory, "noisy/big", *(f"worker-{number}" for number in (*range(5), *range(4000, 4064))))
    memory.stored("big")
    assert memory.in_snapshot(snapshot).counted_here
    leave(memory, "noisy/big", replica)
    memory.stored("big")  # the status of a plan that was made before
    assert not memory.in_snapshot(snapshot).counted_here
    memory.looks_up(snapshot)
    memory.stored("big")
    assert memory.in_snapshot(snapshot).counted_here


@pytest.mark.parametrize("others", [(), ("a/b",), tuple(f"{'a' * 200}/{number}" for number in range(64))])
def test_little_is_kept_of_a_pod_and_no_finalizer_of_others_is_removed(memory, others):
    pod = a_pod("worker-0", code=1, words="x" * 4096, finalizers=others, has_finalizer=True, message="x" * 4096)
    memory.sought(seen(JOBS["quiet", "one"]), pod.name, pod)
    (kept,) = memory.unwatched(seen(JOBS["quiet", "one"]))
    assert (kept.uid, kept.phase, kept.version) == (pod.uid, pod.phase, pod.version)
    assert len(str(kept)) < 1024
    assert not kept.has_finalizer or kept.finalizers == others
    assert bool(kept.finalizers) is bool(others)

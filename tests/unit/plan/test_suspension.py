"""A suspension ends the current attempt and discards its results."""

from __future__ import annotations

from support.builders import a_job, a_pod, at, look, made, pods_of, run_policy, running


def test_who_had_succeeded_before_a_suspension_is_made_again_after_it():
    job, suspended = a_job(worker=2), a_job(worker=2, policy=run_policy(suspend=True))
    done = a_pod("worker-1", "Succeeded", code=0, ended=5)
    status = look(job, *pods_of(job, done), status=running(job), now=at(6)).status
    assert list(status.replica_statuses["Worker"].done) == [1]
    status = look(suspended, *pods_of(job, done), status=status, now=at(7)).status
    status = look(suspended, status=status, now=at(60)).status
    status = look(job, status=status, now=at(90)).status
    assert made(look(job, status=status, now=at(90))) == ["mnist-worker-0", "mnist-worker-1"]

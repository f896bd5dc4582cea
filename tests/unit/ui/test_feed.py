"""What the page knows: jobs and pods as they change, what has gone, reports over time, and what may not be read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from support.pages import Jobs
from support.virtual_time import in_virtual_time
from trainshed.client import UNAUTHORIZED, ApiError, Forbidden, Unavailable
from trainshed.client.job_watch import Change
from trainshed.ui.feed import MOST_DELETED_JOBS, MOST_REMOVED_PODS, Listed
from trainshed.ui.model import Address
from trainshed.ui.samples import MOST_SAMPLES, main_metric, values_of
from trainshed.ui.stories import Stories

MNIST = Address("ml", "pytorchjob", "mnist")


def followed(jobs: Jobs, test: Callable[[], Awaitable[None]]) -> None:
    async def story() -> None:
        task = asyncio.create_task(jobs.feed.run())
        await asyncio.sleep(2)
        await test()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    in_virtual_time(story())


def report(step: int, **metrics: float) -> dict:
    found = [{"name": name, "value": str(value)} for name, value in metrics.items()]
    updated = f"2026-01-01T11:{step // 60:02}:{step % 60:02}Z"
    return {"trainerStatus": {"step": step, "lastUpdatedTime": updated, "metrics": found}}


def pod(name: str, uid: str) -> dict:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "mnist", "uid": uid, "controller": True}
    labels = {"training.kubeflow.org/job-name": "mnist", "team": "x"}
    metadata = {"name": name, "namespace": "ml", "labels": labels, "ownerReferences": [owner]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "pytorch", "image": "train"}]},
    }


def test_a_change_has_a_revision_and_wakes_those_who_wait():
    jobs = Jobs()
    jobs.create("PyTorchJob", "mnist")

    async def test() -> None:
        before = jobs.feed.revision
        assert [file.address for file in jobs.feed.files()] == [MNIST]
        waiting = asyncio.create_task(jobs.feed.newer(before))
        jobs.state("PyTorchJob", "mnist", "Running")
        await asyncio.wait_for(waiting, 1)
        assert [file.state for file in jobs.feed.changed(before)] == ["Running"]
        assert jobs.feed.changed(jobs.feed.revision) == []

    followed(jobs, test)


def test_what_is_deleted_stays_readable_until_another_of_its_name_comes():
    jobs = Jobs()
    jobs.create("PyTorchJob", "mnist")

    async def test() -> None:
        uid = jobs.feed.file(MNIST).document["metadata"]["uid"]
        jobs.create_pod(pod("mnist-master-0", uid))
        await asyncio.sleep(1)
        assert [seen.removed for seen in jobs.feed.file(MNIST).pods] == [None]
        jobs.delete("PyTorchJob", "mnist")
        await asyncio.sleep(1)
        found = jobs.feed.file(MNIST)
        assert (found.state, len(found.pods), found.document["kind"]) == ("Deleted", 1, "PyTorchJob")
        jobs.create("PyTorchJob", "mnist")
        await asyncio.sleep(1)
        assert (jobs.feed.file(MNIST).state, jobs.feed.file(MNIST).pods) == ("Pending", ())

    followed(jobs, test)


def test_of_a_pod_only_what_pages_need_is_kept():
    jobs = Jobs()
    jobs.create("PyTorchJob", "mnist")

    async def test() -> None:
        jobs.create_pod(pod("mnist-master-0", jobs.feed.file(MNIST).document["metadata"]["uid"]))
        await asyncio.sleep(1)
        (seen,) = jobs.feed.file(MNIST).pods
        assert seen.document["metadata"]["labels"] == {"training.kubeflow.org/job-name": "mnist"}
        assert seen.document["spec"]["containers"][0]["name"] == "pytorch"

    followed(jobs, test)


def test_reports_become_samples_that_span_the_whole_job():
    jobs = Jobs()
    jobs.create("PyTorchJob", "mnist")

    async def test() -> None:
        for step in range(MOST_SAMPLES + 10):
            jobs.state("PyTorchJob", "mnist", "Running", **report(step, lr=0.1, train_loss=step / 2))
            await asyncio.sleep(0.01)
        samples = jobs.feed.file(MNIST).samples
        assert len(samples) < MOST_SAMPLES
        assert (samples[0].step, samples[-1].step) == (0, MOST_SAMPLES + 9)
        assert main_metric(samples) == "train_loss"
        assert values_of(samples, "train_loss")[-1] == (MOST_SAMPLES + 9) / 2

    followed(jobs, test)


@pytest.mark.parametrize("number", [MOST_REMOVED_PODS // 2 + 20, MOST_REMOVED_PODS + 20])
def test_pods_that_are_gone_stay_known_as_far_as_there_is_room(number: int):
    jobs = Jobs()
    jobs.create("PyTorchJob", "mnist")

    async def test() -> None:
        uid = jobs.feed.file(MNIST).document["metadata"]["uid"]
        for name in range(number):
            jobs.feed._pod(Change(seen_pod(str(name), uid), deleted=True))
        kept = [seen.document["metadata"]["uid"] for seen in jobs.feed.file(MNIST).pods]
        assert kept == [f"pod-{name}" for name in range(number)][-MOST_REMOVED_PODS:]

    followed(jobs, test)


def seen_pod(name: str, uid: str) -> dict:
    body = pod(name, uid)
    return body | {"metadata": body["metadata"] | {"uid": f"pod-{name}"}}


@pytest.mark.parametrize("number", [MOST_DELETED_JOBS // 2 + 10, MOST_DELETED_JOBS + 10])
def test_jobs_that_are_gone_stay_known_as_far_as_there_is_room(number: int):
    feed = Jobs().feed
    for name in map(str, range(number)):
        job = {"kind": "PyTorchJob", "metadata": {"namespace": "ml", "name": name, "uid": name}}
        feed._job(Change(Listed(job, dict), deleted=False))
        feed._job(Change(Listed(job, dict), deleted=True))
    assert [file.address.name for file in feed.files()] == list(map(str, range(number)))[-MOST_DELETED_JOBS:]


class Refusing:
    """A client whose requests about some resources meet an error, as long as there is one."""

    def __init__(self, rest, plurals: tuple[str, ...], error: ApiError) -> None:
        self._rest, self.plurals, self._error = rest, plurals, error

    def __getattr__(self, name: str):
        return getattr(self._rest, name)

    def _check(self, path) -> None:
        if path.plural in self.plurals:
            raise self._error

    def call(self, verb, path, *words, **more):
        self._check(path)
        return self._rest.call(verb, path, *words, **more)

    def read_page(self, path, *words):
        self._check(path)
        return self._rest.read_page(path, *words)

    async def watch(self, path, query):
        self._check(path)
        async for line in self._rest.watch(path, query):
            self._check(path)
            yield line


def test_what_may_not_be_read_is_said_once_and_the_rest_is_shown():
    jobs = Jobs()
    jobs.create("PyTorchJob", "mnist")
    denied = Forbidden('tfjobs is forbidden: User "u" cannot list resource "tfjobs" in API group "kubeflow.org"')
    jobs.reader.rest = Refusing(jobs.reader.rest, ("tfjobs",), denied)

    async def test() -> None:
        await asyncio.sleep(30)
        assert [file.address for file in jobs.feed.files()] == [MNIST]
        (notice,) = jobs.feed.notices()
        assert notice.kind == "refused"
        assert notice.text.startswith("Not shown: tfjobs is forbidden")
        assert "ClusterRole view" in notice.text

    followed(jobs, test)


def test_an_outage_is_said_while_it_lasts_and_what_was_known_stays():
    for reason, kind in (("", "outage"), (UNAUTHORIZED, "credentials")):
        jobs = Jobs()
        jobs.create("PyTorchJob", "mnist")
        rest = jobs.reader.rest = Refusing(jobs.reader.rest, (), Unavailable("connection refused", reason))

        async def test(jobs=jobs, rest=rest, kind=kind) -> None:
            plurals = tuple(one.plural for one in jobs.feed.kinds)
            rest.plurals = (*plurals, "pods")
            await asyncio.sleep(200)
            assert [notice.kind for notice in jobs.feed.notices()] == [kind]
            assert "known before" in jobs.feed.notices()[0].text
            assert [file.address for file in jobs.feed.files()] == [MNIST]
            rest.plurals = ()
            await asyncio.sleep(30)
            assert jobs.feed.notices() == ()

        followed(jobs, test)


def test_a_cluster_without_the_kinds_is_asked_again():
    jobs = Jobs()
    kinds, answers = jobs.reader.kinds, [Unavailable("connection refused")]

    async def later():
        if answers:
            raise answers.pop()
        return await kinds()

    jobs.reader.kinds = later
    jobs.create("PyTorchJob", "mnist")

    async def test() -> None:
        assert [notice.kind for notice in jobs.feed.notices()] == ["outage"]
        assert "known before" not in jobs.feed.notices()[0].text
        assert not jobs.feed.synced.is_set()
        await asyncio.sleep(30)
        assert jobs.feed.notices() == ()
        assert jobs.feed.synced.is_set()
        assert len(jobs.feed.files()) == 1

    followed(jobs, test)


def test_the_story_and_the_events_of_a_page_read_the_pods_once():
    jobs, reads = Jobs(), []
    jobs.create("PyTorchJob", "mnist")
    read = jobs.reader.pods

    async def counted(job):
        reads.append(job)
        return await read(job)

    jobs.reader.pods = counted

    async def test() -> None:
        file = await Stories(jobs.feed).file(MNIST)
        assert file.story is not None
        assert len(reads) == 1

    followed(jobs, test)

"""The stories of jobs whose pages are open: pods that the feed knows are not read again."""

from __future__ import annotations

import asyncio

import pytest

from support.pages import Jobs, pod_of
from trainshed.client.job_reader import JobReader
from trainshed.ui.model import Address
from trainshed.ui.stories import Stories

ADDRESS = Address("ml", "pytorchjob", "mnist")


@pytest.mark.parametrize("has_pod", [True, False])
async def test_pods_that_the_feed_knows_are_not_read_again(monkeypatch: pytest.MonkeyPatch, *, has_pod: bool):
    jobs, read = Jobs(), list[str]()
    uid = jobs.create("PyTorchJob", "mnist")
    if has_pod:
        jobs.create_pod(pod_of("mnist", uid, "master-0"))
    original = JobReader.pods

    async def pods(self: JobReader, document: dict) -> list:
        read.append(document["metadata"]["name"])
        return await original(self, document)

    monkeypatch.setattr(JobReader, "pods", pods)
    following = asyncio.create_task(jobs.feed.run())
    await jobs.feed.synced.wait()
    file = await Stories(jobs.feed).file(ADDRESS)
    following.cancel()
    assert file.story is not None
    assert read == ([] if has_pod else ["mnist"])

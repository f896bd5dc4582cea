"""The page of the cluster says what was not read, and why: for want of a right, or because of an error."""

from __future__ import annotations

import asyncio
from collections import Counter

from support.pages import NOW, Jobs
from trainshed.client import Forbidden, Unavailable
from trainshed.ui.cluster_reading import ClusterFile, ClusterReader, not_answered, not_permitted
from trainshed.ui.model import PageFrame
from trainshed.ui.pages import cluster_page


def read(error: Exception) -> ClusterFile:
    """Return what is known of a cluster that answers every request with an error."""
    reader = Jobs().reader

    async def refuse(*_args, **_options):
        raise error

    reader.read_list = reader.rest.read_page = refuse

    async def story() -> ClusterFile:
        return await ClusterReader(reader, "ml", None).read()

    return asyncio.run(story())


def test_a_missing_right_is_named():
    found = read(Forbidden("no"))
    assert "list localqueues.kueue.x-k8s.io in namespace ml" in not_permitted(found)
    assert "LocalQueues" in not_permitted(found)
    assert not_answered(found) == ""


def test_an_error_is_no_missing_right():
    found = read(Unavailable("connection refused"))
    assert not_permitted(found) == ""
    assert not_answered(found) == "Not read: nodes, LocalQueues, ClusterQueues: connection refused."


def test_jobs_that_were_never_read_are_not_said_to_need_nothing():
    known = cluster_page.ClusterView(ClusterFile(), (), (), Counter())
    assert "None." in str(cluster_page.live(known, NOW))
    unknown = cluster_page.ClusterView(ClusterFile(), (), (), Counter(), is_known=False)
    text = str(cluster_page.page(unknown, PageFrame(NOW)))
    assert "None." not in text
    assert "not known yet" in text

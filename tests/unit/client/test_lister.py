"""All objects of a kind are read, in any number of pages."""

from __future__ import annotations

import pytest

from support.jobs import tfjob
from trainshed.client import Unavailable, lists
from trainshed.client.client import CORE, Lister
from trainshed.client.lists import DOCUMENTS, PODS
from trainshed.client.transport import Path
from trainshed.frameworks.tensorflow import TENSORFLOW


def names(documents) -> list[str]:
    return sorted(document["metadata"]["name"] for document in documents)


async def test_all_pages_are_read(rest, user, monkeypatch):
    monkeypatch.setattr(lists, "PAGE_SIZE", 2)
    for number in range(5):
        user.create(tfjob(f"j{number}", Worker=1))
    found = await Lister(rest).all(Path(TENSORFLOW.prefix, "tfjobs", user.namespace), DOCUMENTS)
    assert names(found) == ["j0", "j1", "j2", "j3", "j4"]


async def test_a_list_may_be_restricted_to_a_label(rest, user):
    spec = {"containers": [{"name": "a", "image": "x"}]}
    user.make("pods", {"metadata": {"name": "a", "labels": {"own": "1"}}, "spec": spec})
    user.make("pods", {"metadata": {"name": "b"}, "spec": spec})
    census = Lister(rest)
    assert [pod.name for pod in await census.all(Path(CORE, "pods", user.namespace), PODS, "own")] == ["a"]
    assert len(await census.all(Path(CORE, "pods", user.namespace), PODS)) == 2


async def test_a_kind_that_is_not_served_has_no_objects(rest):
    assert await Lister(rest).all(Path("/apis/scheduling.volcano.sh/v1beta1", "podgroups"), DOCUMENTS) == []


async def test_deployments_webhooks_and_definitions_are_read(rest):
    census = Lister(rest)
    assert "tfjobs.kubeflow.org" in names(await census.definitions())
    assert await census.deployments(lambda item: item) == await census.webhooks() == []


async def test_an_undecodable_response_is_a_cluster_error(rest, monkeypatch):
    async def garbled(*_, **__) -> bytes:
        return b"<html>"

    monkeypatch.setattr(rest, "read_page", garbled)
    with pytest.raises(Unavailable, match="cannot decode the response"):
        await Lister(rest).webhooks()

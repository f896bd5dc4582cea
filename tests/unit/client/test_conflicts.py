"""A deletion with a conflict: another object has the name by now, or the server had an internal conflict."""

from __future__ import annotations

import json

import pytest

from trainshed.client import Conflict, NotFound, Unavailable
from trainshed.client.client import ApiClient
from trainshed.client.flow_control import TokenBucket


class Stumbling:
    """A connection whose writes all conflict; `there` is the uid of the object with the name, if there is one."""

    def __init__(self, there: str) -> None:
        self._there = there

    async def write(self, *_request: object) -> bytes:
        raise Conflict("the object has been modified")

    async def call(self, *_request: object) -> bytes:
        if not self._there:
            raise NotFound("no such pod")
        return json.dumps({"metadata": {"uid": self._there}}).encode()


async def test_who_is_there_still_is_not_taken_for_gone():
    with pytest.raises(Unavailable):
        await ApiClient(Stumbling("it"), TokenBucket()).delete_pod("ml", "mnist-worker-0", "it", None, "")


@pytest.mark.parametrize("there", ["another", ""], ids=["another object has the name", "the name is free"])
async def test_an_object_with_another_uid_means_that_it_is_deleted(there):
    assert await ApiClient(Stumbling(there), TokenBucket()).delete_pod("ml", "mnist-worker-0", "it", None, "") is None

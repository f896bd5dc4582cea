"""The simulated server responds as the real one does: each status and reason, each version, each watch event."""

from __future__ import annotations

import asyncio

import pytest

from simulation.differential.campaign import Campaign
from simulation.differential.comparison import Comparison
from simulation.differential.masks import Mask, ranked
from simulation.differential.sequences import sequence
from simulation.differential.sides import Simulated
from trainshed.client.transport import Answer, Request

#: The number of sequences, and the seed of the first; `make sim-conformance N=20000` runs more.
COUNT, FIRST = 300, 1_000_000


class Prompt(Simulated):
    """A simulated server with an immediate garbage collector, in place of the real one."""

    async def ask(self, request: Request) -> Answer:
        """One request."""
        answer = await super().ask(request)
        self.collects_garbage()
        return answer


@pytest.mark.apiserver
def test_random_sequences_of_calls_have_the_same_responses(plane):
    campaign = Campaign(plane.kubeconfig, range(FIRST, FIRST + COUNT))
    asyncio.run(campaign.run(8))
    assert campaign.differences == [], "\n".join(map(str, campaign.differences))
    assert campaign.sequences == COUNT


def test_a_seed_gives_one_sequence_and_another_seed_another():
    assert [str(call) for call in sequence(7)] == [str(call) for call in sequence(7)]
    assert [str(call) for call in sequence(7)] != [str(call) for call in sequence(8)]


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("a lost conflict", lambda said: {**said, "code": 200}),
        ("a reason", lambda said: {**said, "reason": "Other"}),
        ("a label", lambda said: {**said, "object": {"metadata": {"labels": {"other": "x"}}}}),
    ],
)
def test_a_small_difference_between_the_servers_is_found(path, change, monkeypatch):
    """Two simulated servers are equal; with one changed response they are not."""

    def differ(seed: int) -> object:
        return asyncio.run(Comparison(seed, Prompt("ml"), "ml").differ())

    assert [differ(seed) for seed in range(30)] == [None] * 30, path
    whole, count = Mask.answer, iter(range(100_000))

    def changed(self, status, content):
        said = whole(self, status, content)
        return change(said) if next(count) == 40 else said

    monkeypatch.setattr(Mask, "answer", changed)
    assert any(differ(seed) for seed in range(30)), path


def test_versions_are_compared_by_their_order_alone():
    mask, other = Mask(), Mask()

    def documents(own: Mask, *versions: int) -> object:
        found = [
            own.document({"kind": "Pod", "metadata": {"name": "a", "resourceVersion": str(version)}})
            for version in versions
        ]
        return ranked(found, apart=False)

    assert documents(mask, 5, 9, 9) == documents(other, 100, 200, 200)
    assert documents(mask, 5, 9, 9) != documents(other, 100, 200, 300)

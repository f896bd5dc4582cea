"""The simulated server answers as the real one does: each code and reason, each version, each event of each watch."""

from __future__ import annotations

import asyncio

import pytest

from simulation.differential.campaign import Campaign
from simulation.differential.masks import Mask, ranked
from simulation.differential.play import Play
from simulation.differential.sequences import sequence
from simulation.differential.sides import Simulated
from trainshed.client.transport import Answer, Request

#: So many sequences are played in CI; `make sim-conformance N=20000` plays more.
COUNT, FIRST = 500, 1_000_000


class Prompt(Simulated):
    """A simulated server whose garbage collector is never late, in the place of the real one."""

    async def ask(self, request: Request) -> Answer:
        """One request."""
        answer = await super().ask(request)
        self.sweeps()
        return answer


@pytest.mark.apiserver
def test_random_sequences_of_calls_are_answered_alike(plane):
    campaign = Campaign(plane.kubeconfig, range(FIRST, FIRST + COUNT))
    asyncio.run(campaign.run(8))
    assert campaign.differences == [], "\n".join(map(str, campaign.differences))
    assert campaign.sequences == COUNT


def test_a_seed_makes_one_sequence_and_another_another():
    assert [str(call) for call in sequence(7)] == [str(call) for call in sequence(7)]
    assert [str(call) for call in sequence(7)] != [str(call) for call in sequence(8)]


@pytest.mark.parametrize(
    ("path", "spoil"),
    [
        ("a lost conflict", lambda said: {**said, "code": 200}),
        ("a reason", lambda said: {**said, "reason": "Other"}),
        ("a label", lambda said: {**said, "object": {"metadata": {"labels": {"other": "x"}}}}),
    ],
)
def test_a_server_that_is_a_little_different_is_found_out(path, spoil, monkeypatch):
    """Two simulated servers are alike; with one answer of one of them spoilt they are not."""

    def differ(seed: int) -> object:
        return asyncio.run(Play(seed, Prompt("likeness"), "likeness").differ())

    assert [differ(seed) for seed in range(30)] == [None] * 30, path
    whole, count = Mask.answer, iter(range(100_000))

    def spoilt(self, status, content):
        said = whole(self, status, content)
        return spoil(said) if next(count) == 40 else said

    monkeypatch.setattr(Mask, "answer", spoilt)
    assert any(differ(seed) for seed in range(30)), path


def test_versions_are_compared_by_their_order_alone():
    mask, other = Mask(), Mask()

    def told(own: Mask, *versions: int) -> object:
        documents = [
            own.document({"kind": "Pod", "metadata": {"name": "a", "resourceVersion": str(version)}})
            for version in versions
        ]
        return ranked(documents, apart=False)

    assert told(mask, 5, 9, 9) == told(other, 100, 200, 200)
    assert told(mask, 5, 9, 9) != told(other, 100, 200, 300)

"""A run on this machine has no cluster: what its page says names no command for one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from support.jobs import smallest
from trainshed.ui.local_words import local_story
from trainshed.views import advice
from trainshed.views.chapter import Chapter, Story

JOB = smallest("PyTorchJob", "mnist") | {"metadata": {"name": "mnist", "namespace": "ml"}}
#: Of what a run has no operator, and of jobs that are suspended, which a run does not know.
OF_CLUSTERS = (advice.STOPPED, advice.RESUME)


def every_advice() -> Iterator[str]:
    """Yield all that is advised about a job."""
    for found in vars(advice).values():
        for text in found.values() if isinstance(found, dict) else [found]:
            if isinstance(text, str) and "{job}" in text and text not in OF_CLUSTERS:
                yield text


def local_advice(text: str) -> str:
    line = text.replace("{job}", "pytorchjob/mnist -n ml").replace("{container}", "pytorch")
    return local_story(Story("", (Chapter("What to do", (line,)),)), JOB).chapters[0].lines[0]


@pytest.mark.parametrize("text", sorted(set(every_advice())))
def test_no_advice_names_a_command_for_a_cluster(text: str):
    assert not re.search(r"trainshed (?!run|lint)|kubectl|API server", local_advice(text).replace("trainshed.dev", ""))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            advice.PROGRAM,
            "The program ended with an error of its own: the last lines say which. The page Logs has the rest.",
        ),
        (
            "trainshed logs {job} --container sidecar --previous shows what it printed.",
            "The page Logs with ?container=sidecar, “run before the last restart”, shows what it printed.",
        ),
        ("trainshed stacks {job} shows more.", "The page Stacks shows more."),
        (advice.OVER, "The run is over: start trainshed run again."),
    ],
)
def test_it_says_what_takes_their_place(text: str, said: str):
    assert local_advice(text) == said

"""What the operator would be started with, and whether a report is sound; the lists are read on a real API server."""

from __future__ import annotations

import click
import pytest

from make import a_job, seen
from trainshed.cli.foresight import Grade, Outlook
from trainshed.cli.premises import Finding, Premises, State
from trainshed.cli.survey import Report, settle
from trainshed.settings import Settings


def premises(*flags: str) -> Premises:
    container = {"image": "kubeflow/training-operator:1", "command": ["/manager"], "args": list(flags)}
    item = {"metadata": {"name": "a", "namespace": "b"}, "spec": {"template": {"spec": {"containers": [container]}}}}
    return Premises((item,), (), ())


def test_the_flags_of_v1_count_unless_others_are_given():
    assert settle(Premises((), (), ()), ()) == Settings()
    found = settle(premises("-namespace=ml", "--controller-threads=4"), ())
    assert found.namespaces == ("ml",)
    assert found.passed_over[0].startswith("--controller-threads is passed over")
    assert settle(premises("-namespace=ml"), ("--gang-scheduler-name=volcano",)) == Settings(gang_scheduler="volcano")


def test_flags_that_nobody_knows_are_told():
    with pytest.raises(click.ClickException, match=r"flags of v1's Deployment would not do: .*--frobnicate"):
        settle(premises("--frobnicate"), ())
    with pytest.raises(click.ClickException, match=r"flags after -- would not do: .*SparkJob"):
        settle(premises(), ("--enable-scheme=SparkJob",))


@pytest.mark.parametrize(
    ("state", "grade", "sound"),
    [
        (State.FINE, Grade.SAME, True),
        (State.TO_DO, Grade.GOES_ON, True),
        (State.WRONG, Grade.SAME, False),
        (State.FINE, Grade.LOOK, False),
    ],
)
def test_a_report_is_sound_unless_something_is_wrong_or_wants_a_look(state, grade, sound):
    outlook = Outlook(seen(a_job(worker=1)), grade, ())
    assert Report((Finding(state, ""),), Settings(), (outlook,)).sound is sound

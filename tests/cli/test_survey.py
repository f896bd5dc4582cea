"""The settings of the operator to be started, and the outcome of a report; lists are read in tests/apiserver."""

from __future__ import annotations

import click
import pytest

from make import a_job, seen
from trainshed.cli.foresight import Grade, Outlook
from trainshed.cli.premises import Finding, Premises, State
from trainshed.cli.survey import Report, settle
from trainshed.config import Config


def premises(*flags: str) -> Premises:
    container = {"image": "kubeflow/training-operator:1", "command": ["/manager"], "args": list(flags)}
    item = {"metadata": {"name": "a", "namespace": "b"}, "spec": {"template": {"spec": {"containers": [container]}}}}
    return Premises((item,), (), ())


def test_the_flags_of_v1_are_the_default():
    assert settle(Premises((), (), ()), ()) == Config()
    found = settle(premises("-namespace=ml", "--controller-threads=4"), ())
    assert found.namespaces == ("ml",)
    assert found.passed_over[0].startswith("--controller-threads is ignored")
    assert settle(premises("-namespace=ml"), ("--gang-scheduler-name=volcano",)) == Config(gang_scheduler="volcano")


def test_unknown_flags_are_an_error():
    with pytest.raises(click.ClickException, match=r"flags of v1's Deployment are invalid: .*--frobnicate"):
        settle(premises("--frobnicate"), ())
    with pytest.raises(click.ClickException, match=r"flags after -- are invalid: .*SparkJob"):
        settle(premises(), ("--enable-scheme=SparkJob",))


@pytest.mark.parametrize(
    ("state", "grade", "sound"),
    [
        (State.OK, Grade.UNCHANGED, True),
        (State.ACTION_REQUIRED, Grade.WILL_CHANGE, True),
        (State.ERROR, Grade.UNCHANGED, False),
        (State.OK, Grade.NEEDS_ATTENTION, False),
    ],
)
def test_a_report_is_sound_without_errors_and_jobs_that_need_attention(state, grade, sound):
    outlook = Outlook(seen(a_job(worker=1)), grade, ())
    assert Report((Finding(state, ""),), Config(), (outlook,)).sound is sound

"""The settings of the operator to be started, and the outcome of a report; lists are read in test_adopt.py."""

from __future__ import annotations

import click
import pytest

from support.builders import a_job, seen
from trainshed.cli.migrate import Report, effective_config
from trainshed.cli.preflight import Check, ClusterState, JobForecast, Severity, State
from trainshed.config import Config


def cluster_state(*flags: str) -> ClusterState:
    container = {"image": "kubeflow/training-operator:1", "command": ["/manager"], "args": list(flags)}
    item = {"metadata": {"name": "a", "namespace": "b"}, "spec": {"template": {"spec": {"containers": [container]}}}}
    return ClusterState((item,), (), ())


def test_the_flags_of_v1_are_the_default():
    assert effective_config(ClusterState((), (), ()), ()) == Config()
    found = effective_config(cluster_state("-namespace=ml", "--controller-threads=4"), ())
    assert found.namespaces == ("ml",)
    assert found.flag_warnings[0].startswith("--controller-threads is ignored")
    assert effective_config(cluster_state("-namespace=ml"), ("--gang-scheduler-name=volcano",)) == Config(
        gang_scheduler="volcano"
    )


def test_unknown_flags_are_an_error():
    with pytest.raises(click.ClickException, match=r"flags of v1's Deployment are invalid: .*--frobnicate"):
        effective_config(cluster_state("--frobnicate"), ())
    with pytest.raises(click.ClickException, match=r"flags after -- are invalid: .*SparkJob"):
        effective_config(cluster_state(), ("--enable-scheme=SparkJob",))


@pytest.mark.parametrize(
    ("state", "severity", "sound"),
    [
        (State.OK, Severity.UNCHANGED, True),
        (State.ACTION_REQUIRED, Severity.WILL_CHANGE, True),
        (State.ERROR, Severity.UNCHANGED, False),
        (State.OK, Severity.NEEDS_ATTENTION, False),
    ],
)
def test_a_report_is_sound_without_errors_and_jobs_that_need_attention(state, severity, sound):
    outlook = JobForecast(seen(a_job(worker=1)), severity, ())
    assert Report((Check(state, ""),), Config(), (outlook,)).ok is sound

"""The settings of the operator to be started, and the outcome of a report; lists are read in test_adopt.py."""

from __future__ import annotations

import click
import pytest

from trainshed.api.framework import JobDefaults
from trainshed.cli.migrate import Report, effective_config
from trainshed.cli.operators import ClusterState
from trainshed.cli.preflight import Check, JobForecast, Severity, State
from trainshed.config import Config

from .cluster_objects import ENTITLED, deployment


def cluster_state(*flags: str) -> ClusterState:
    item = deployment(command=["/manager"], args=list(flags))
    return ClusterState((item,), (), (), (ENTITLED,))


def test_the_flags_of_v1_are_the_default():
    assert effective_config(ClusterState((), (), (), ()), ()) == Config()
    found = effective_config(cluster_state("-namespace=ml", "--controller-threads=4"), ())
    assert found.namespaces == ("ml",)
    assert found.flag_warnings[0].startswith("--controller-threads is ignored")
    assert effective_config(cluster_state("-namespace=ml"), ("--gang-scheduler-name=volcano",)) == Config(
        job_defaults=JobDefaults(gang_scheduler="volcano")
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--enable-scheme=SparkJob",), "SparkJob"),
        (("--help",), "--help"),
        (("-help",), "-h"),
        (("--frobnicate",), "--frobnicate"),
    ],
)
def test_flags_that_no_operator_starts_with_are_an_error(flags, words):
    where = "flags of v1's Deployment kubeflow/training-operator are invalid"
    with pytest.raises(click.ClickException, match=f"{where}: .*{words}"):
        effective_config(cluster_state(*flags), ())
    with pytest.raises(click.ClickException, match=f"flags after -- are invalid: .*{words}"):
        effective_config(cluster_state(), flags)


def test_of_v1s_flags_no_file_and_no_variable_of_this_machine_is_read(tmp_path, monkeypatch):
    (tmp_path / "own").write_text("- {name: [")
    flag = f"--pytorch-init-container-template-file={tmp_path / 'own'}"
    monkeypatch.setenv("KUBEFLOW_NAMESPACE", "of-this-machine")
    found = effective_config(cluster_state(flag), ())
    assert (found.job_defaults.init_template, found.namespaces) == ("", ())
    assert found.flag_warnings[0].startswith("--pytorch-init-container-template-file is not considered here")
    with pytest.raises(click.ClickException, match="own: "):
        effective_config(cluster_state(), (flag,))


def test_different_flags_of_several_deployments_are_no_default():
    both = tuple(deployment(name=name, args=[f"--namespace={name}"]) for name in ("a", "b"))
    state = ClusterState(both, (), (), (ENTITLED,))
    with pytest.raises(click.ClickException, match="kubeflow/a, kubeflow/b of v1 have different flags"):
        effective_config(state, ())
    assert effective_config(state, ("--namespace=c",)).namespaces == ("c",)


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
    outlook = JobForecast("TFJob", severity, ())
    assert Report((Check(state, ""),), Config(), (outlook,)).ok is sound

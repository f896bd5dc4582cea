"""Every knob can be turned by a flag and by the environment; v1's flags mean what they meant, or say why not."""

from __future__ import annotations

from dataclasses import fields

import pytest
from click.testing import CliRunner, Result

from trainshed.cli import cli
from trainshed.cli.operate import operator
from trainshed.settings import Settings


class Started:
    """Stands where the operator would run, and notes what it was started with."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.settings: list[Settings] = []

    def __call__(self, settings: Settings) -> int:
        self.settings.append(settings)
        return self.code


def start(*flags: str, env: dict | None = None, code: int = 0) -> tuple[Result, Settings | None]:
    started = Started(code)
    result = CliRunner().invoke(cli, ["operator", *flags], env=env, obj=started, auto_envvar_prefix="TRAINSHED")
    return result, started.settings[0] if started.settings else None


def test_without_flags_the_settings_are_the_defaults():
    result, settings = start()
    assert result.exit_code == 0
    assert settings == Settings()


@pytest.mark.parametrize(
    ("flags", "field", "expected"),
    [
        (["--namespace", "ml"], "namespace", "ml"),
        (["--enable-scheme", "tfjob", "--enable-scheme=TFJob"], "kinds", ("TFJob",)),
        (["--kubeconfig", "k"], "kubeconfig", "k"),
        (["--context", "c"], "context", "c"),
        (["--no-leader-elect"], "leader_elect", False),
        (["--leader-elect"], "leader_elect", True),
        (["--lease-name", "l"], "lease_name", "l"),
        (
            ["--leader-election-id", "1ca428e5.training-operator.kubeflow.org"],
            "lease_name",
            "1ca428e5.training-operator.kubeflow.org",
        ),
        (["--lease-namespace", "n"], "lease_namespace", "n"),
        (["--lease-identity", "me"], "lease_identity", "me"),
        (["--health-probe-bind-address", ":1"], "health", ":1"),
        (["--metrics-bind-address", ":2"], "metrics", ":2"),
        (["--kube-api-qps", "20"], "qps", 20.0),
        (["--kube-api-burst", "60"], "burst", 60),
        (["--cluster-domain", "tf.test"], "cluster_domain", "tf.test"),
        (["--default-clean-pod-policy", "Running"], "clean_pods", "Running"),
        (["--pytorch-init-container-image", "alpine:3.10"], "init_image", "alpine:3.10"),
        (["--pytorch-init-container-max-tries", "3"], "init_tries", 3),
        (["--log-level", "debug"], "log_level", "debug"),
        (["--log-format", "json"], "log_format", "json"),
    ],
)
def test_a_flag_turns_its_knob_and_no_other(flags, field, expected):
    result, settings = start(*flags)
    assert result.exit_code == 0, result.output
    assert getattr(settings, field) == expected
    others = [knob.name for knob in fields(Settings) if knob.name != field]
    assert [getattr(settings, other) for other in others] == [getattr(Settings(), other) for other in others]


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("TRAINSHED_OPERATOR_NAMESPACE", "ml", "namespace", "ml"),
        ("KUBEFLOW_NAMESPACE", "ml", "namespace", "ml"),
        ("TRAINSHED_OPERATOR_CLUSTER_DOMAIN", "tf.test", "cluster_domain", "tf.test"),
        ("CUSTOM_CLUSTER_DOMAIN", "tf.test", "cluster_domain", "tf.test"),
        ("TRAINSHED_OPERATOR_QPS", "5", "qps", 5.0),
        ("TRAINSHED_OPERATOR_KINDS", "TFJob PyTorchJob", "kinds", ("TFJob", "PyTorchJob")),
        ("TRAINSHED_OPERATOR_LEADER_ELECT", "false", "leader_elect", False),
        ("TRAINSHED_OPERATOR_LOG_FORMAT", "json", "log_format", "json"),
    ],
)
def test_the_environment_turns_knobs_too(name, value, field, expected):
    result, settings = start(env={name: value})
    assert result.exit_code == 0, result.output
    assert getattr(settings, field) == expected


def test_every_knob_has_a_flag():
    assert {option.name for option in operator.params if option.expose_value} == {
        knob.name for knob in fields(Settings)
    }


@pytest.mark.parametrize("flag", ["--controller-threads", "--webhook-server-port", "--webhook-service-name"])
def test_v1s_flags_that_are_not_needed_are_passed_over_with_a_word(flag):
    result, settings = start(flag, "3")
    assert result.exit_code == 0
    assert settings == Settings()
    assert f"{flag} is passed over" in result.stderr


def test_gang_scheduling_is_refused_rather_than_left_out():
    result, settings = start("--gang-scheduler-name", "volcano")
    assert (result.exit_code, settings) == (2, None)
    assert "gang scheduling is not there yet" in result.stderr
    assert start("--gang-scheduler-name", "")[1] == Settings()


def test_a_kind_that_we_do_not_know_is_refused():
    result, settings = start("--enable-scheme", "SparkJob")
    assert (result.exit_code, settings) == (2, None)
    assert "SparkJob: known are TFJob, PyTorchJob" in result.stderr


def test_the_exit_code_is_the_operators():
    assert start(code=1)[0].exit_code == 1

"""Every setting has a flag and an environment variable; v1's flags keep their meaning or are ignored with a reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import asdict, replace

from trainshed.cli import cli
from trainshed.cli.operator import operator
from trainshed.config import Config

ROOT = Path(__file__).parents[3]


class Started:
    """Runs in the place of the operator and records its settings."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.settings: list[Config] = []

    def __call__(self, settings: Config) -> int:
        self.settings.append(settings)
        return self.code


def start(*flags: str, env: dict | None = None, code: int = 0) -> tuple[Result, Config | None]:
    started = Started(code)
    result = CliRunner().invoke(cli, ["operator", *flags], env=env, obj=started, auto_envvar_prefix="TRAINSHED")
    return result, started.settings[0] if started.settings else None


def flat(settings: Config) -> dict[str, Any]:
    """Return all settings by name, those of jobs among the others."""
    found = asdict(settings)
    return found | asdict(found.pop("job_defaults"))


def test_without_flags_the_settings_are_the_defaults():
    result, settings = start()
    assert result.exit_code == 0
    assert settings == Config()


@pytest.mark.parametrize(
    ("flags", "field", "expected"),
    [
        (["--namespace", "ml"], "namespaces", ("ml",)),
        (["-namespace=ml"], "namespaces", ("ml",)),
        (["--namespace="], "namespaces", ()),
        (["--namespace", "b,a", "--namespace=c", "--namespace=a, d,"], "namespaces", ("b", "a", "c", "d")),
        (["--enable-scheme", "tfjob", "--enable-scheme=TFJob"], "kinds", ("TFJob",)),
        (["--kubeconfig", "k"], "kubeconfig", "k"),
        (["--context", "c"], "context", "c"),
        (["--no-leader-elect"], "leader_elect", False),
        (["--leader-elect"], "leader_elect", True),
        (["--job-metrics"], "job_metrics", True),
        (["--progress-server", "reports.ml.svc:10443"], "progress_server", "reports.ml.svc:10443"),
        (["--progress-bind-address", ":3"], "progress", ":3"),
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
        (["--metrics-bind-address=0"], "metrics", "0"),
        (["--metrics-bind-address=[::1]:2"], "metrics", "[::1]:2"),
        (["--kube-api-qps", "0.5"], "qps", 0.5),
        (["--kube-api-burst", "60"], "burst", 60),
        (["--cluster-domain", "tf.test"], "cluster_domain", "tf.test"),
        (["--default-clean-pod-policy", "Running"], "clean_pods", "Running"),
        (["--default-services", "Job"], "services", "Job"),
        (["--kueue-integration", "PodGroup"], "kueue", "PodGroup"),
        (["--pytorch-init-container-image", "alpine:3.10"], "init_image", "alpine:3.10"),
        (["--pytorch-init-container-max-tries", "3"], "init_tries", 3),
        (["--gang-scheduler-name", "volcano"], "gang_scheduler", "volcano"),
        (["--gang-scheduler-name", "scheduler-plugins"], "gang_scheduler", "scheduler-plugins"),
        (["--mpi-bind-named-service-accounts"], "mpi_bind_named_accounts", True),
        (
            ["--init-container-resources", "cpu=50m,memory=32Mi"],
            "init_resources",
            (("cpu", "50m"), ("memory", "32Mi")),
        ),
        (
            ["--default-pod-annotation", "sidecar.istio.io/inject=false", "--default-pod-annotation=note=a=b, c"],
            "pod_annotations",
            (("sidecar.istio.io/inject", "false"), ("note", "a=b, c")),
        ),
        (["--mpi-kubectl-delivery-image", "kubectl:1"], "mpi_kubectl_image", "kubectl:1"),
        (["--mpi-version", "v2beta1"], "mpi_version", "v2beta1"),
        (["--log-level", "debug"], "log_level", "debug"),
        (["--zap-log-level=Error"], "log_level", "error"),
        (["--zap-log-level", "2"], "log_level", "debug"),
        (["--zap-log-level", "panic"], "log_level", "error"),
        (["--log-format", "json"], "log_format", "json"),
        (["--zap-encoder=json"], "log_format", "json"),
        (["-namespace", "ml"], "namespaces", ("ml",)),
        (["-leader-elect=false"], "leader_elect", False),
        (["--leader-elect=F"], "leader_elect", False),
        (["--no-leader-elect", "-leader-elect"], "leader_elect", True),
        (["--leader-elect=false", "--leader-elect=true"], "leader_elect", True),
        (["-enable-scheme=tfjob", "-enable-scheme=PYTORCHJOB"], "kinds", ("TFJob", "PyTorchJob")),
    ],
)
def test_a_flag_changes_its_setting_and_no_other(flags, field, expected):
    result, settings = start(*flags)
    assert result.exit_code == 0, result.output
    assert flat(settings) == flat(Config()) | {field: expected}


@pytest.mark.parametrize("flag", ["--metrics-bind-address", "--health-probe-bind-address"])
@pytest.mark.parametrize("value", [":http", "8080", "[::1", "[localhost]:1", ":70000"])
def test_an_invalid_bind_address_is_rejected_before_the_start(flag, value):
    result, settings = start(f"{flag}={value}")
    assert (result.exit_code, settings) == (2, None)
    assert f"Invalid value for '{flag}': " in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("TRAINSHED_OPERATOR_NAMESPACE", "ml", "namespaces", ("ml",)),
        ("TRAINSHED_OPERATOR_NAMESPACE", "ml,vision speech", "namespaces", ("ml", "vision", "speech")),
        ("TRAINSHED_OPERATOR_NAMESPACE", "", "namespaces", ()),
        ("KUBEFLOW_NAMESPACE", "ml", "namespaces", ("ml",)),
        ("TRAINSHED_OPERATOR_CLUSTER_DOMAIN", "tf.test", "cluster_domain", "tf.test"),
        ("CUSTOM_CLUSTER_DOMAIN", "tf.test", "cluster_domain", "tf.test"),
        ("MY_POD_NAMESPACE", "kubeflow", "lease_namespace", "kubeflow"),
        ("TRAINSHED_OPERATOR_QPS", "5", "qps", 5.0),
        ("TRAINSHED_OPERATOR_KINDS", "TFJob PyTorchJob", "kinds", ("TFJob", "PyTorchJob")),
        ("TRAINSHED_OPERATOR_LEADER_ELECT", "false", "leader_elect", False),
        ("TRAINSHED_OPERATOR_LOG_FORMAT", "json", "log_format", "json"),
    ],
)
def test_an_environment_variable_changes_its_setting(name, value, field, expected):
    result, settings = start(env={name: value})
    assert result.exit_code == 0, result.output
    assert flat(settings)[field] == expected


def test_every_setting_has_a_flag():
    derived = {"flag_warnings", "notify"}
    assert {option.name for option in operator.params if option.expose_value} == flat(Config()).keys() - derived


def test_defaults_of_v1_may_be_given_explicitly():
    flags = ["--gang-scheduler-name=", "--gang-scheduler-name=None", "--zap-encoder=console", "--zap-log-level=info"]
    assert start(*flags)[1] == Config()


@pytest.mark.parametrize(
    "flag",
    [
        "--controller-threads=3",
        "--webhook-server-port=9443",
        "-webhook-service-name=training-operator",
        "--webhook-secret-name=training-operator-webhook-cert",
        "--zap-devel",
        "--zap-devel=true",
        "-zap-devel=false",
        "--zap-stacktrace-level=error",
        "--zap-time-encoding=epoch",
    ],
)
def test_unneeded_flags_of_v1_are_ignored_with_a_warning(flag):
    result, settings = start(flag)
    assert result.exit_code == 0, result.output
    (warning,) = settings.flag_warnings
    assert warning.startswith(f"-{flag}".replace("---", "--").partition("=")[0] + " is ignored: ")
    assert replace(settings, flag_warnings=()) == Config()


def test_all_flags_of_a_v1_deployment_are_accepted_together():
    flags = (
        "--metrics-bind-address=:8080 --health-probe-bind-address :8081 --leader-elect --enable-scheme=tfjob"
        " --leader-election-id=1ca428e5.training-operator.kubeflow.org --gang-scheduler-name=volcano --namespace=ml"
        " --controller-threads=4 --kube-api-qps=20 --kube-api-burst=30 --pytorch-init-container-image=alpine:3.10"
        " --pytorch-init-container-max-tries=100 --pytorch-init-container-template-file=/etc/config/initContainer.yaml"
        " --mpi-kubectl-delivery-image=kubectl:1 --webhook-server-port=9443 --webhook-service-name=training-operator"
        " --webhook-secret-name=cert --zap-devel=false --zap-encoder=json --zap-log-level=debug"
        " --zap-stacktrace-level=error --zap-time-encoding=rfc3339 --kubeconfig=k"
    )
    result, settings = start(*flags.split())
    assert result.exit_code == 0, result.output
    assert (settings.namespaces, settings.job_defaults.init_image, settings.log_format) == (
        ("ml",),
        "alpine:3.10",
        "json",
    )
    assert len(settings.flag_warnings) == 7


def test_v1s_file_of_init_containers_is_read(tmp_path):
    file = tmp_path / "initContainer.yaml"
    file.write_text("- name: wait\n  image: {{.InitContainerImage}}\n")
    flag = f"--pytorch-init-container-template-file={file}"
    assert start(flag)[1].job_defaults.init_template == file.read_text()
    file.write_text("- name: wait\n  image: {{.Image}}\n")
    result, settings = start(flag)
    assert (result.exit_code, settings) == (2, None)
    assert "{{.Image}} is not supported" in " ".join(result.stderr.split())


def test_a_missing_file_of_init_containers_is_ignored_with_a_warning(tmp_path):
    _, settings = start(f"--pytorch-init-container-template-file={tmp_path / 'none'}")
    assert settings.job_defaults.init_template == ""
    assert settings.flag_warnings[0].endswith("none does not exist")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--zap-log-level=loud", "'loud' is not one of debug, info"),
        ("--zap-encoder=xml", "'xml' is not one of text, json"),
        ("--leader-elect=perhaps", "invalid boolean value 'perhaps'"),
        ("--default-pod-annotation=note", "'note' is not an annotation with its value"),
        ("--default-pod-annotation=-bad=1", "'-bad=1' is not an annotation with its value"),
    ],
)
def test_an_invalid_value_is_rejected(flag, words):
    result, settings = start(flag)
    assert (result.exit_code, settings) == (2, None)
    assert words in result.stderr


def test_an_unknown_kind_is_rejected():
    result, settings = start("--enable-scheme", "SparkJob")
    assert (result.exit_code, settings) == (2, None)
    assert "unknown kind SparkJob; known kinds are TFJob, PyTorchJob" in result.stderr


def test_the_exit_code_is_the_operators():
    assert start(code=1)[0].exit_code == 1


def test_the_image_has_v1s_program_at_the_same_path(tmp_path):
    (line,) = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if "/manager" in line and "RUN" in line]
    manager = tmp_path / "manager"
    subprocess.run(["sh", "-c", line.removeprefix("RUN ").replace("/manager", str(manager))], check=True)
    (tmp_path / "python").symlink_to(sys.executable)
    found = subprocess.run(
        [manager, "-leader-elect", "--zap-devel=true", "--enable-scheme=SparkJob"],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2
    assert "unknown kind SparkJob; known kinds are TFJob" in found.stderr


@pytest.mark.parametrize("name", ["ml/vision", "ML", "*", "-a", "a" * 64])
def test_an_invalid_name_of_a_namespace_is_rejected(name):
    result, settings = start(f"--namespace=good,{name}")
    assert settings is None
    assert f"{name}: not a valid name of a namespace" in result.output

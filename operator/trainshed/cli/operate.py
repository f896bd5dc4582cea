"""`trainshed operator`: every knob by a flag, under v1's name where the meaning is v1's, or by TRAINSHED_OPERATOR_*."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from trainshed.api.init_template import WORDS, BadTemplate, containers
from trainshed.frameworks import FRAMEWORKS, MPI_VERSIONS
from trainshed.settings import Settings, bind_address

from .gostyle import GoStyle

KINDS = {framework.kind.lower(): framework.kind for framework in FRAMEWORKS}
#: How namespaces are called: a DNS label, RFC 1123.
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
CHECKED = "the API server itself checks what is applied, by the rules in the CRDs: there is no webhook"
#: v1's flags for what is not needed here: who replaces only the image need not change the flags.
NEEDLESS = {
    "--controller-threads": "every job that has something new is looked at at once",
    "--webhook-server-port": CHECKED,
    "--webhook-service-name": CHECKED,
    "--webhook-secret-name": CHECKED,
    "--zap-stacktrace-level": "what went wrong unexpectedly always has its traceback",
    "--zap-time-encoding": "times are ISO 8601 always",
}
ZAP_DEVEL = "--zap-log-level and --zap-encoder say how much is told and in which form; by default info, as text"
#: v1's words for how much the log tells, and in which form.
LEVELS = {"panic": "error", "dpanic": "error", "fatal": "error", "warn": "warning"}
FORMS = {"console": "text"}
#: Where v1 looks for its init container when it is not told.
INIT_TEMPLATE = "/etc/config/initContainer.yaml"
PASSED_OVER = "trainshed.passed_over"


def _kinds(_context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in names if name.lower() not in KINDS]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}: known are {', '.join(KINDS.values())}")
    return tuple(dict.fromkeys(KINDS[name.lower()] for name in names))


def _namespaces(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    names = [name for value in values for name in re.split(r"[,\s]+", value) if name]
    wrong = [name for name in names if not NAMESPACE.fullmatch(name)]
    if wrong:
        raise click.BadParameter(f"{', '.join(wrong)}: no namespace has such a name")
    return tuple(dict.fromkeys(names))


def _bind_address(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    try:
        bind_address(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return value


def _pass_over(context: click.Context, parameter: click.Parameter, value: object) -> None:
    if value is not None:
        flag = parameter.opts[0]
        _say(context, f"{flag} is passed over: {NEEDLESS.get(flag, ZAP_DEVEL)}")


def _say(context: click.Context, words: str) -> None:
    context.meta.setdefault(PASSED_OVER, []).append(words)


def _level(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    level = value.lower()
    if level.isdecimal():
        return "debug"
    return _one_of(("debug", "info", "warning", "error"), LEVELS.get(level, level))


def _form(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    form = value.lower()
    return _one_of(("text", "json"), FORMS.get(form, form))


def _one_of(known: tuple[str, ...], value: str) -> str:
    if value not in known:
        raise click.BadParameter(f"{value!r} is not one of {', '.join(known)}")
    return value


def _template(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """The text of v1's file, if it is there; v1 goes on without it as well."""
    path = Path(value)
    if not path.is_file():
        if value and value != INIT_TEMPLATE:
            _say(context, f"{parameter.opts[0]} is passed over: there is no file {value}")
        return ""
    text = path.read_text(encoding="utf-8")
    try:
        containers(text, WORDS)
    except BadTemplate as error:
        raise click.BadParameter(f"{value}: {error}") from error
    return text


def _gang(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    return "" if value == "None" else value


def _needless(command: click.Command) -> None:
    rest: dict[str, Any] = {"hidden": True, "expose_value": False, "callback": _pass_over}
    command.params += [click.Option([flag], **rest) for flag in NEEDLESS]
    command.params.append(click.Option(["--zap-devel/--no-zap-devel"], default=None, **rest))


@click.command(cls=GoStyle)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    callback=_namespaces,
    envvar=["TRAINSHED_OPERATOR_NAMESPACE", "KUBEFLOW_NAMESPACE"],
    help="Look after this namespace only; may be repeated, or several with commas between them.",
)
@click.option("--enable-scheme", "kinds", multiple=True, callback=_kinds, help="Run this kind only; may be repeated.")
@click.option("--kubeconfig", default="", help="Credentials outside of a cluster.")
@click.option("--context", default="", help="The context of the kubeconfig to use.")
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True, help="One replica acts at a time.")
@click.option(
    "--lease-name", "--leader-election-id", default="trainshed", show_default=True, help="The leader's Lease."
)
@click.option(
    "--lease-namespace",
    default="",
    envvar=["TRAINSHED_OPERATOR_LEASE_NAMESPACE", "MY_POD_NAMESPACE"],
    help="Its namespace; our own if not given.",
)
@click.option("--lease-identity", default="", help="Who we are among our replicas; host and process if not given.")
@click.option(
    "--health-probe-bind-address",
    "health",
    default=":8081",
    show_default=True,
    callback=_bind_address,
    help="Bind address of /healthz and /readyz; 0 disables them.",
)
@click.option(
    "--metrics-bind-address",
    "metrics",
    default=":8080",
    show_default=True,
    callback=_bind_address,
    help="Bind address of /metrics; 0 disables it.",
)
@click.option("--job-metrics", is_flag=True, help="Show each job that is not over in series of its own.")
@click.option("--kube-api-qps", "qps", default=0.0, show_default=True, help="Requests a second; 0 is no limit.")
@click.option("--kube-api-burst", "burst", default=30, show_default=True, help="So many more at once.")
@click.option(
    "--cluster-domain",
    default="",
    envvar=["TRAINSHED_OPERATOR_CLUSTER_DOMAIN", "CUSTOM_CLUSTER_DOMAIN"],
    help="What follows svc in TF_CONFIG.",
)
@click.option(
    "--default-clean-pod-policy",
    "clean_pods",
    default="None",
    type=click.Choice(["None", "Running", "All"]),
    help="Which pods go when a job is over and does not say.",
)
@click.option("--gang-scheduler-name", "gang_scheduler", default="", callback=_gang, help="volcano, or a scheduler's.")
@click.option("--keep-results", is_flag=True, help="Jobs may ask that pods stay until their results are noted.")
@click.option("--pytorch-init-container-image", "init_image", default="", help="Bring v1's init container back.")
@click.option(
    "--pytorch-init-container-max-tries", "init_tries", default=100, show_default=True, help="How often it asks."
)
@click.option(
    "--pytorch-init-container-template-file",
    "init_template",
    default=INIT_TEMPLATE,
    show_default=True,
    callback=_template,
    help="v1's file of init containers; if it is there they are back.",
)
@click.option(
    "--mpi-version", default="v1", type=click.Choice([*MPI_VERSIONS]), show_default=True, help="As the CRD of MPIJob."
)
@click.option(
    "--mpi-kubectl-delivery-image",
    "mpi_kubectl_image",
    default=Settings().mpi_kubectl_image,
    help="Where the launchers of MPIJobs of v1 get their kubectl.",
)
@click.option("--log-level", "--zap-log-level", default="info", callback=_level, help="debug, info, warning or error.")
@click.option("--log-format", "--zap-encoder", default="text", callback=_form, help="text or json.")
@click.pass_context
def operator(context: click.Context, /, **knobs: object) -> None:
    """Look after training jobs until told to end."""
    run: Callable[[Settings], int] = context.obj
    told = tuple(context.meta.get(PASSED_OVER, ()))
    sys.exit(run(Settings(**knobs, passed_over=told)))  # type: ignore[arg-type] # click has checked them


_needless(operator)

"""`trainshed operator`: every knob by a flag, under v1's name where the meaning is v1's, or by TRAINSHED_OPERATOR_*."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from trainshed.frameworks import FRAMEWORKS
from trainshed.settings import Settings

KINDS = {framework.kind.lower(): framework.kind for framework in FRAMEWORKS}
#: v1's flags for what is not needed here: who replaces only the image need not change the flags.
NEEDLESS = {
    "--controller-threads": "every job that has something new is looked at at once",
    "--webhook-server-port": "the API server itself checks what is applied",
    "--webhook-service-name": "the API server itself checks what is applied",
    "--webhook-secret-name": "the API server itself checks what is applied",
}


def _kinds(_context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in names if name.lower() not in KINDS]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}: known are {', '.join(KINDS.values())}")
    return tuple(dict.fromkeys(KINDS[name.lower()] for name in names))


def _pass_over(_context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        flag = parameter.opts[0]
        click.echo(f"{flag} is passed over: {NEEDLESS[flag]}", err=True)


def _refuse_gangs(_context: click.Context, _parameter: click.Parameter, value: str) -> None:
    if value not in ("", "None"):
        raise click.BadParameter("gang scheduling is not there yet; without it pods are scheduled one by one")


def _needless(command: click.Command) -> click.Command:
    for flag in NEEDLESS:
        command.params.append(click.Option([flag], hidden=True, expose_value=False, callback=_pass_over))
    return command


@click.command()
@click.option(
    "--namespace",
    default="",
    envvar=["TRAINSHED_OPERATOR_NAMESPACE", "KUBEFLOW_NAMESPACE"],
    help="Look after this namespace only.",
)
@click.option("--enable-scheme", "kinds", multiple=True, callback=_kinds, help="Run this kind only; may be repeated.")
@click.option("--kubeconfig", default="", help="Credentials outside of a cluster.")
@click.option("--context", default="", help="The context of the kubeconfig to use.")
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True, help="One replica acts at a time.")
@click.option(
    "--lease-name", "--leader-election-id", default="trainshed", show_default=True, help="The leader's Lease."
)
@click.option("--lease-namespace", default="", help="Its namespace; our own if not given.")
@click.option("--lease-identity", default="", help="Who we are among our replicas; host and process if not given.")
@click.option("--health-probe-bind-address", "health", default=":8081", show_default=True)
@click.option("--metrics-bind-address", "metrics", default=":8080", show_default=True)
@click.option("--kube-api-qps", "qps", default=0.0, show_default=True, help="Requests a second; 0 is no limit.")
@click.option("--kube-api-burst", "burst", default=30, show_default=True, help="So many more at once.")
@click.option(
    "--cluster-domain",
    default="",
    envvar=["TRAINSHED_OPERATOR_CLUSTER_DOMAIN", "CUSTOM_CLUSTER_DOMAIN"],
    help="What follows svc in TF_CONFIG.",
)
@click.option("--default-clean-pod-policy", "clean_pods", default="None", type=click.Choice(["None", "Running", "All"]))
@click.option("--pytorch-init-container-image", "init_image", default="", help="Bring v1's init container back.")
@click.option("--pytorch-init-container-max-tries", "init_tries", default=100, show_default=True)
@click.option("--gang-scheduler-name", default="", expose_value=False, callback=_refuse_gangs, help="Not yet.")
@click.option("--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]))
@click.option("--log-format", default="text", type=click.Choice(["text", "json"]), show_default=True)
@click.pass_obj
def operator(run: Callable[[Settings], int], /, **knobs: object) -> None:
    """Look after training jobs until told to end."""
    sys.exit(run(Settings(**knobs)))  # type: ignore[arg-type] # click has checked them


operator = _needless(operator)

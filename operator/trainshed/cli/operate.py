"""`trainshed operator`: every knob by a flag, under v1's name where the meaning is v1's, or by TRAINSHED_OPERATOR_*."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from trainshed.frameworks import FRAMEWORKS
from trainshed.settings import Settings

KINDS = {framework.kind.lower(): framework.kind for framework in FRAMEWORKS}


def _kinds(_context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in names if name.lower() not in KINDS]
    if unknown:
        raise click.BadParameter(f"{', '.join(unknown)}: known are {', '.join(KINDS.values())}")
    return tuple(KINDS[name.lower()] for name in names)


@click.command()
@click.option("--namespace", default="", envvar="KUBEFLOW_NAMESPACE", help="Look after this namespace only.")
@click.option("--enable-scheme", "kinds", multiple=True, callback=_kinds, help="Run this kind only; may be repeated.")
@click.option("--kubeconfig", default="", help="Credentials outside of a cluster.")
@click.option("--context", default="", help="The context of the kubeconfig to use.")
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True, help="One replica acts at a time.")
@click.option("--lease-name", default="trainshed", show_default=True, help="The Lease that the leader holds.")
@click.option("--lease-namespace", default="", help="Its namespace; our own if not given.")
@click.option("--health-probe-bind-address", "health", default=":8081", show_default=True)
@click.option("--metrics-bind-address", "metrics", default=":8080", show_default=True)
@click.option("--kube-api-qps", "qps", default=0.0, show_default=True, help="Requests a second; 0 is no limit.")
@click.option("--kube-api-burst", "burst", default=30, show_default=True, help="So many more at once.")
@click.option("--cluster-domain", default="", envvar="CUSTOM_CLUSTER_DOMAIN", help="What follows svc in TF_CONFIG.")
@click.option("--default-clean-pod-policy", "clean_pods", default="None", type=click.Choice(["None", "Running", "All"]))
@click.option("--pytorch-init-container-image", "init_image", default="", help="Bring v1's init container back.")
@click.option("--pytorch-init-container-max-tries", "init_tries", default=100, show_default=True)
@click.option("--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]))
@click.pass_obj
def operator(run: Callable[[Settings], int], /, **knobs: object) -> None:
    """Look after training jobs until told to end."""
    sys.exit(run(Settings(**knobs)))  # type: ignore[arg-type] # click has checked them

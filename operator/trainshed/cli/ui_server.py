"""`trainshed ui-server`: the page for a team, behind an authenticating proxy."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trainshed.client.credentials import Credentials, NoCredentials
from trainshed.client.http import HttpTransport
from trainshed.client.kubeconfig import find_credentials
from trainshed.client.transport import RestClient
from trainshed.config import bind_address
from trainshed.process import configure_logging, handle_signals

if TYPE_CHECKING:  # they take long to import
    from trainshed.ui.feed import Feed
    from trainshed.ui.proxy_headers import ActingUser
    from trainshed.ui.team_server import BindAddress, TeamSettings

#: The name of a header, or none.
HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*)?", re.ASCII)
BASE_PATH = re.compile(r"/([A-Za-z0-9._~-]+/)*", re.ASCII)
#: What the directive frame-ancestors of a CSP takes here: nothing that could end it and begin another one.
FRAME_ANCESTOR = re.compile(r"'self'|https?://[A-Za-z0-9.:*-]+", re.ASCII)
IMPERSONATE, READ_ONLY = "Impersonate", "ReadOnly"


def _matches(form: re.Pattern[str], what: str) -> click.types.FuncParamType:  # type: ignore[type-arg] # not generic before click 8.4
    def convert(text: str) -> str:
        if not form.fullmatch(text):
            raise ValueError(text)
        return text

    convert.__name__ = what
    return click.types.FuncParamType(convert)


def _address(_context: click.Context, _parameter: click.Parameter, value: str) -> BindAddress:
    try:
        found = bind_address(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if found is None:
        raise click.BadParameter("the server has to be reached")
    return found


@click.command("ui-server")
@click.option(
    "--mode",
    type=click.Choice([IMPERSONATE, READ_ONLY]),
    default=IMPERSONATE,
    show_default=True,
    help="Read with the rights of the user whom the proxy names, or all with those of the server's service account.",
)
@click.option(
    "--user-header",
    type=_matches(HEADER, "header"),
    default="X-Forwarded-User",
    show_default=True,
    help="Header in which the proxy names the user.",
)
@click.option(
    "--groups-header",
    type=_matches(HEADER, "header"),
    default="",
    help="Header with the user's groups (default: none).",
)
@click.option("-n", "--namespace", default="", help="Namespace that is shown if none is asked for (default: all).")
@click.option(
    "--base-path",
    type=_matches(BASE_PATH, "path"),
    default="/",
    show_default=True,
    help="Path of the page at the proxy.",
)
@click.option(
    "--frame-ancestor",
    "frame_ancestors",
    type=_matches(FRAME_ANCESTOR, "origin"),
    multiple=True,
    help="Origin that may show the page in a frame, or 'self' with its quotes (default: none).",
)
@click.option(
    "--proxy-secret-file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="File with what the proxy sends in X-Trainshed-Proxy-Secret (default: any request is answered).",
)
@click.option(
    "--most-feeds", type=click.IntRange(1), default=30, show_default=True, help="Users and namespaces at a time."
)
@click.option(
    "--bind-address", "address", callback=_address, default=":8080", show_default=True, help="Address of the page."
)
@click.option(
    "--health-probe-bind-address",
    "probes",
    callback=_address,
    default=":8081",
    show_default=True,
    help="Address of the probes.",
)
@click.option("--kubeconfig", default="", help="Path of the kubeconfig (default: the service account of the pod).")
def ui_server(*, kubeconfig: str, address: BindAddress, probes: BindAddress, most_feeds: int, **page: Any) -> None:  # noqa: ANN401 - click's
    """Show a team its jobs in the browser, behind your own authenticating proxy.

    Who can reach this server past the proxy can say to be any user: see docs/ui.md#the-page-for-a-team.
    """
    if page["mode"] == IMPERSONATE and not page["user_header"]:
        raise click.UsageError("--mode Impersonate needs --user-header")
    configure_logging("info", "text")
    try:
        asyncio.run(_serve(find_credentials(kubeconfig), _settings(page), most_feeds, address, probes))
    except (NoCredentials, OSError) as error:
        raise click.ClickException(str(error)) from error


def _settings(page: Mapping[str, Any]) -> TeamSettings:
    from trainshed.ui.proxy_headers import ProxyHeaders  # noqa: PLC0415 - only this command needs it
    from trainshed.ui.team_server import TeamSettings  # noqa: PLC0415 - and it takes long to import

    acting = page["mode"] == IMPERSONATE
    user_header, groups_header = (page["user_header"], page["groups_header"]) if acting else ("", "")
    return TeamSettings(
        ProxyHeaders(user_header, groups_header, page["proxy_secret_file"]),
        namespace=page["namespace"],
        base=page["base_path"].rstrip("/"),
        frame_ancestors=page["frame_ancestors"],
    )


async def _serve(
    credentials: Credentials, settings: TeamSettings, most: int, address: BindAddress, probes: BindAddress
) -> None:
    from trainshed.ui.access import Access  # noqa: PLC0415 - only this command needs it
    from trainshed.ui.application import VIEWS, Site  # noqa: PLC0415
    from trainshed.ui.model import JobsPlace  # noqa: PLC0415
    from trainshed.ui.team import Team  # noqa: PLC0415
    from trainshed.ui.team_server import TeamServer  # noqa: PLC0415

    def connect(identity: ActingUser) -> RestClient:
        return RestClient(HttpTransport(replace(credentials, impersonation=identity.headers())))

    def draw(feed: Feed, place: str) -> Site:
        return Site(feed, Access(), JobsPlace(place, program=""))  # which allows no changes

    over = asyncio.Event()
    handle_signals(over)
    async with TeamServer(Team(connect, draw, most), VIEWS, settings).served(address, probes):
        await over.wait()

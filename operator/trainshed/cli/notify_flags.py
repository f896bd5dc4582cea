"""The flags of the operator for messages to webhooks."""

from __future__ import annotations

import re
from ipaddress import ip_network

import click

from trainshed.config import NOTIFY_STATES

from .parameters import separated


def _networks(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    found = separated(values)
    for text in found:
        try:
            ip_network(text)
        except ValueError as error:
            raise click.BadParameter(f"{text!r} is not a network such as 10.0.0.0/8: {error}") from error
    return tuple(found)


def _states(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    found = separated(values)
    if unknown := [text for text in found if text not in NOTIFY_STATES]:
        raise click.BadParameter(f"{', '.join(unknown)}: not one of {', '.join(NOTIFY_STATES)}")
    return tuple(dict.fromkeys(found)) or NOTIFY_STATES


def _page(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if value and not re.fullmatch(r"https?://[!-;=?-~]+", value):
        raise click.BadParameter(f"{value!r} is not the URL of a page, such as https://trainshed.example.com")
    return value


FLAGS = (
    click.Option(
        ["--notify-webhooks"],
        default="",
        help="Folder of a mounted Secret with webhooks by name, for jobs with trainshed.dev/notify (default: none).",
    ),
    click.Option(
        ["--notify-state", "notify_states"],
        multiple=True,
        callback=_states,
        help="State of which webhooks are sent (default: all). May be repeated, or a list separated by commas.",
    ),
    click.Option(
        ["--notify-allow"],
        multiple=True,
        callback=_networks,
        help="Network where webhooks may be besides the Internet, such as 10.0.0.0/8; http is allowed only there.",
    ),
    click.Option(
        ["--notify-page"], default="", callback=_page, help="URL of trainshed ui-server, for links (default: none)."
    ),
)

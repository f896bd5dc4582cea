"""Flags in Go's style are translated; other arguments are not changed."""

from __future__ import annotations

import click
import pytest

from trainshed.cli.go_style import translated

OPTIONS = [
    click.Option(["--name", "--alias"]),
    click.Option(["--switch/--no-switch"], default=None),
    click.Option(["--plain"], is_flag=True),
    click.Argument(["file"]),
]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("-name=x", "--name=x"),
        ("-name x", "--name x"),
        ("--name=-x=y", "--name=-x=y"),
        ("-alias=", "--alias="),
        ("-switch", "--switch"),
        ("--switch=true", "--switch"),
        ("-switch=0", "--no-switch"),
        ("--plain=1", "--plain"),
        ("--plain=false", ""),
        ("-unknown=x", "-unknown=x"),
        ("-n x file -", "-n x file -"),
        ("-name x -- -name=y", "--name x -- -name=y"),
    ],
)
def test_a_flag_is_translated(given, expected):
    assert list(translated(given.split(), OPTIONS)) == expected.split()


def test_an_invalid_boolean_value_is_rejected():
    with pytest.raises(click.BadParameter, match="invalid boolean value 'yes'"):
        list(translated(["--switch=yes"], OPTIONS))

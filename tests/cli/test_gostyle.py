"""Go's way of writing flags is understood, and nothing else is changed."""

from __future__ import annotations

import click
import pytest

from trainshed.cli.gostyle import translated

OPTIONS = [
    click.Option(["--name", "--alias"]),
    click.Option(["--switch/--no-switch"], default=None),
    click.Option(["--plain"], is_flag=True),
    click.Argument(["file"]),
]


@pytest.mark.parametrize(
    ("written", "understood"),
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
def test_a_flag_is_translated(written, understood):
    assert list(translated(written.split(), OPTIONS)) == understood.split()


def test_what_is_neither_true_nor_false_is_refused():
    with pytest.raises(click.BadParameter, match="neither true nor false"):
        list(translated(["--switch=yes"], OPTIONS))

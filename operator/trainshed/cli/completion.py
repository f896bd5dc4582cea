"""`trainshed completion`: the program with which a shell completes commands, options and the names of jobs."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
PROGRAM, VARIABLE = "trainshed", "_TRAINSHED_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    r"""Print the completion of a shell: of commands, options, and the names of jobs in the cluster.

    \b
    bash   source <(trainshed completion bash)
    zsh    source <(trainshed completion zsh)
    fish   trainshed completion fish | source
    """
    from . import cli  # noqa: PLC0415 - it imports this module

    # Not `source()`: for bash it would run the bash that is first in the PATH to learn its version.
    found = SHELLS[shell](cli, {}, PROGRAM, VARIABLE)
    click.echo(found.source_template % found.source_vars())

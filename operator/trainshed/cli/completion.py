"""`trainshed completion`: the program with which a shell completes commands, options and the names of jobs."""

from __future__ import annotations

import sys

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
PROGRAM, VARIABLE = "trainshed", "_TRAINSHED_COMPLETE"
#: The lines after \b are printed as they stand.
HELP = """Print the completion of a shell: of commands, options, and the names of jobs in the cluster.

\b
bash   source <(trainshed completion bash)
zsh    source <(trainshed completion zsh)
fish   trainshed completion fish | source
"""
#: The last line for kubectl: whether the shell completes names of files, a ShellCompDirective of cobra.
FILES, NO_FILES = ":0", ":4"


@click.command(help=HELP)
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print the completion of a shell."""
    from . import cli  # noqa: PLC0415 - it imports this module

    # Not `source()`: for bash it would run the bash that is first in the PATH to learn its version.
    found = SHELLS[shell](cli, {}, PROGRAM, VARIABLE)
    click.echo(found.source_template % found.source_vars())


def complete_for_kubectl() -> None:
    """Print what can stand in place of the last argument of this program, as kubectl asks its plugins.

    kubectl runs it as `kubectl_complete-trainshed` with the words after `kubectl trainshed`; a line has a completion,
    or with a tab its explanation too: https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/.
    """
    from . import cli  # noqa: PLC0415 - it imports this module

    *words, unfinished = sys.argv[1:] or [""]
    found = ShellComplete(cli, {}, PROGRAM, VARIABLE).get_completions(words, unfinished)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(NO_FILES if all(item.type == "plain" for item in found) else FILES)

"""The command-line interface."""

from __future__ import annotations

import os
from importlib import import_module

import click

#: The module, the name of the command in it, and one line of help: a command is imported when it runs, so that others
#: are fast. Those for people with jobs, and those for administrators.
JOBS = {
    "get": ("get", "Show jobs of all kinds: what state they are in, and why."),
    "explain": ("explain", "Say what has become of a job, why, and what to do."),
    "logs": ("logs", "Print the output of all replicas of a job."),
    "events": ("events", "Show the Events about a job and its pods."),
    "wait": ("wait", "Wait until a job is in a state."),
    "run": ("run", "Run jobs on this machine, without a cluster."),
    "render": ("render", "Print the objects that the operator creates for jobs."),
}
ADMINISTRATORS = {
    "operator": ("operator", "Run the operator."),
    "crds": ("crds", "Print the CustomResourceDefinitions."),
    "migrate": ("migrate", "Preview the migration from training-operator v1."),
    "remove-finalizers": ("remove_finalizers", "Remove Trainshed's finalizer from pods."),
}
COMMANDS = JOBS | ADMINISTRATORS


#: The exit code after Ctrl-C: 128 and the number of SIGINT.
INTERRUPTED = 130


class LazyGroup(click.Group):
    """A group that imports a command when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name; None if there is none."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f".{module}", __name__), module)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by who needs them."""
        del ctx
        for title, commands in (("Jobs", JOBS), ("Administration", ADMINISTRATORS)):
            with formatter.section(title):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; the text of its errors has no control characters: it may quote what others have written.

        Ctrl-C ends each command with 130, as shells expect, also while it is imported; click's own code is 1.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except click.ClickException as error:
            from trainshed.api import foreign_text  # noqa: PLC0415 - only errors need it

            error.message = foreign_text.lines(error.message)  # type: ignore[misc] # it is what click prints
            raise


@click.group(cls=LazyGroup)
@click.version_option(package_name="trainshed")
@click.pass_context
def cli(context: click.Context) -> None:
    """Run distributed training jobs of the kubeflow.org/v1 kinds on Kubernetes."""
    if os.environ.get("NO_COLOR"):
        context.color = False

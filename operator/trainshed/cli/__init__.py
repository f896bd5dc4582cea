"""The command-line interface."""

from __future__ import annotations

from importlib import import_module

import click

#: The module and the attribute of each command. A command is imported when it runs, so that `--version` is fast.
COMMANDS = {
    "operator": ("operator", "operator"),
    "run": ("run", "run"),
    "render": ("render", "render"),
    "crds": ("crds", "crds"),
    "migrate": ("migrate", "migrate"),
    "remove-finalizers": ("remove_finalizers", "remove_finalizers"),
}


#: The exit code after Ctrl-C: 128 and the number of SIGINT.
INTERRUPTED = 130


class LazyGroup(click.Group):
    """A group that imports a command when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name; None if there is none."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f".{module}", __name__), attribute)
        return command

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
def cli() -> None:
    """Run distributed training jobs of the kubeflow.org/v1 kinds on Kubernetes."""

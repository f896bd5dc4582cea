"""The command-line interface."""

from __future__ import annotations

import errno
import os
from importlib import import_module

import click

#: What a write to a disk that is full, or beyond a quota, ends with.
FULL = (errno.ENOSPC, errno.EDQUOT)
#: The module, the name of the command in it, and one line of help: a command is imported when it runs, so that others
#: are fast. Those for people with jobs, and those that set something up.
JOBS = {
    "get": ("get", "Show jobs, states and why"),
    "explain": ("explain", "Say why, and what to do"),
    "ui": ("ui", "Show jobs in the browser"),
    "logs": ("logs", "Print output of replicas"),
    "report": ("report", "Write a post-mortem"),
    "replay": ("replay", "Say why, step by step"),
    "stacks": ("stacks", "Show what hangs, and where"),
    "top": ("top", "Show what replicas use"),
    "events": ("events", "Show Events of job and pods"),
    "wait": ("wait", "Wait until a job has ended"),
    "submit": ("submit", "Create jobs, and follow"),
    "restart": ("suspension", "Replace all pods of jobs"),
    "suspend": ("suspension", "Delete their pods for now"),
    "resume": ("suspension", "Create their pods again"),
    "scale": ("scale", "Change the replicas"),
    "delete": ("delete", "Delete jobs and their pods"),
    "run": ("run", "Run jobs on this machine"),
    "drill": ("drill", "Try whether they survive"),
    "render": ("render", "Print what would be created"),
    "lint": ("lint", "Check jobs beforehand"),
    "plan": ("plan", "Say whether jobs would fit"),
    "whatif": ("whatif", "Predict ends amid failures"),
    "mcp": ("mcp", "Serve tools for agents"),
}
ADMINISTRATORS = {
    "operator": ("operator", "Run the operator"),
    "ui-server": ("ui_server", "Run the page for a team"),
    "doctor": ("doctor", "Check the installation"),
    "crds": ("crds", "Print the CRDs"),
    "migrate": ("migrate", "Preview it from v1"),
    "convert": ("convert", "Translate TrainJobs"),
    "remove-finalizers": ("remove_finalizers", "Release pods"),
    "completion": ("completion", "Complete words"),
}
COMMANDS = JOBS | ADMINISTRATORS
#: The characters of a column of commands in the help.
COLUMN = 39


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
        command: click.Command = getattr(import_module(f".{module}", __name__), cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of these words; the error says which one may be meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

            if close := get_close_matches(args[0], COMMANDS, n=1):
                error.message = f"{error.message.rstrip('.')}; did you mean {close[0]}?"  # type: ignore[misc] # as below
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in one line, whose names say all, and the commands after it: the help fits a screen."""
        names = [option.opts[-1] for option in self.get_params(ctx)]
        formatter.write(f"Options: {', '.join(names)}\n")
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by who needs them."""
        del ctx
        for title, commands in (("Jobs", JOBS), ("Set-up", ADMINISTRATORS)):
            if commands is not JOBS:  # for an empty line before them the screen has no room
                formatter.write_paragraph()
            formatter.write_heading(title)
            rows = [(name, text) for name, (_, text) in commands.items()]
            formatter.write("\n".join(_in_columns(rows, formatter.width)) + "\n")

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; the text of its errors has no control characters: it may quote what others have written.

        Ctrl-C ends each command with 130, as shells expect, also while it is imported; click's own code is 1.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise click.ClickException(f"cannot write the output: {error.strerror}") from error
        except ModuleNotFoundError as error:
            if (missing := _missing(error)) is None:
                raise
            raise click.ClickException(missing) from error
        except click.ClickException as error:
            from trainshed.api import foreign_text  # noqa: PLC0415 - only errors need it

            error.message = foreign_text.lines(error.message)  # type: ignore[misc] # it is what click prints
            raise


def _missing(error: ModuleNotFoundError) -> str | None:
    """Return which extra has to be installed for a module; None if none of them brings it.

    Of several it is the one after which a module on the way to the import is named, such as trainshed.ui.
    """
    from importlib.metadata import requires  # noqa: PLC0415 - only errors need these three
    from re import fullmatch  # noqa: PLC0415
    from traceback import walk_tb  # noqa: PLC0415

    module = (error.name or "").partition(".")[0]
    declared = (fullmatch(r"""([\w.-]+).*; extra == ['"]([\w-]+)['"]""", line) for line in requires("trainshed") or ())
    extras = [found[2] for found in declared if found and found[1].replace("-", "_") == module and found[2] != "dev"]
    if not extras:
        return None
    way = {part for frame, _ in walk_tb(error.__traceback__) for part in frame.f_globals["__name__"].split(".")}
    extra = next((extra for extra in extras if extra in way), extras[0])
    return f"this needs the Python package {module}: pip install 'trainshed[{extra}]'"


def _in_columns(rows: list[tuple[str, str]], width: int) -> list[str]:
    """Return the lines of names and texts: in two columns, so that the help fits a screen, where there is room."""
    count = 2 if width + 2 >= 2 * COLUMN else 1
    size = -(-len(rows) // count)
    columns = [rows[start : start + size] for start in range(0, len(rows), size)]
    lines = [""] * size
    for column in columns:
        longest = max(len(name) for name, _ in column)
        for number, (name, text) in enumerate(column):
            lines[number] = f"{lines[number]:<{COLUMN}}" if column is not columns[0] else ""
            lines[number] += f"  {name:<{longest}}  {text}"
    return lines


def wants_no_colours() -> bool:
    """Return whether the user wants none (https://no-color.org), or has a terminal that cannot show them."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")


@click.group(cls=LazyGroup)
@click.version_option(package_name="trainshed")
@click.pass_context
def cli(context: click.Context) -> None:
    """Run distributed training jobs of the kubeflow.org/v1 kinds on Kubernetes."""
    if wants_no_colours():
        context.color = False

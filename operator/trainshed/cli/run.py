"""`trainshed run`: run jobs on this machine, without a cluster."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import print_exception
from types import TracebackType
from typing import Any

import click

from trainshed.local import run as local_run
from trainshed.local.failure_injection import InjectedFailure
from trainshed.local.failure_injection import parse as parse_failure
from trainshed.local.options import RUNTIMES, Options, Refused, Shown, ShownRun
from trainshed.local.output import printable
from trainshed.local.runtimes.python import NoPython
from trainshed.local.state_folder import Unusable, default_place
from trainshed.local.tasks import described
from trainshed.process import TextFormatter

from . import local_jobs, sources, wants_no_colours


def _failures(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[InjectedFailure, ...]:
    try:
        return tuple(map(parse_failure, values))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@sources.filename
@sources.recursive
@local_jobs.in_namespace
@click.option(
    "--runtime",
    type=click.Choice(RUNTIMES),
    default="auto",
    show_default=True,
    help="How replicas run. auto is namespaces if this machine permits them, else processes. docker and podman use the"
    " images of the job.",
)
@local_jobs.with_python
@click.option("--only", multiple=True, help="Replica whose output is printed, such as worker-0. May be repeated.")
@click.option("--no-color", is_flag=True, help="Print without colors and without the status line.")
@click.option("--output", "form", type=click.Choice(("text", "json")), default="text", help="Form of the summary.")
@click.option(
    "--fail",
    "failures",
    multiple=True,
    callback=_failures,
    help="Kill a replica after a time, or at a line: worker-1@20s, worker-1@'step 100'.",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False),
    default=None,
    help="Where the folder trainshed-runs is, with logs and claims (default: ~/.local/state).",
)
@click.option("--ui", "page", is_flag=True, help="Show the jobs in the browser, too; the page stays until Ctrl-C.")
@click.option("--yes", is_flag=True, help="Run jobs from a URL without asking.")
@click.option("-v", "--verbose", is_flag=True, help="Print where an unexpected error has occurred.")
def run(files: tuple[str, ...], *, recursive: bool, namespace: str, **options: Any) -> None:  # noqa: ANN401 - click's own
    r"""Run jobs on this machine, without a cluster.

    Replicas are processes, or containers of docker or podman. Restarts, deadlines, success and failure are decided as
    in a cluster. The exit code is 0 if all jobs succeeded, 1 if one failed, and 130 after Ctrl-C.
    Ctrl-\ shows what each rank is doing.
    """
    if not options["verbose"]:
        sys.excepthook = _print_sentence
        _quiet_loggers()
    try:
        code = local_run.run(_wanted(files, recursive=recursive, namespace=namespace, options=options))
    except (Refused, NoPython, Unusable, OSError) as error:
        if options["verbose"] and error.__cause__:
            print_exception(error.__cause__)
        text = described(error) if isinstance(error, OSError) else str(error)
        raise click.ClickException("\n".join(map(printable, text.splitlines()))) from error
    if code == local_run.INTERRUPTED:  # one more Ctrl-C would change the exit code while the interpreter ends
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def _wanted(files: tuple[str, ...], *, recursive: bool, namespace: str, options: dict[str, Any]) -> Options:
    """Return what to run; end the program if a job is invalid, or if the user does not want a job from a URL."""
    if options["state"] == "":  # which `Path` takes for the current folder
        raise click.ClickException("--state needs the name of a folder")
    jobs, objects = local_jobs.read(files, recursive=recursive, namespace=namespace, unasked=options["yes"])
    return Options(
        jobs=tuple(jobs),
        objects=tuple(objects),
        state=Path(options["state"] or default_place()).absolute(),
        runtime=options["runtime"],
        python=options["python"],
        only=options["only"],
        colour=_coloured(no_color=options["no_color"], json=options["form"] == "json"),
        json=options["form"] == "json",
        failures=options["failures"],
        page=_page() if options["page"] else None,
    )


def _page() -> Callable[[ShownRun], Shown]:
    """Return what shows jobs in a browser; it takes long to import."""
    from .local_page import local_page  # noqa: PLC0415

    return local_page


def _print_sentence(_kind: type[BaseException], error: BaseException, _traceback: TracebackType | None) -> None:
    """Print an error that nothing has expected, in one sentence; the interpreter ends with exit code 1 then."""
    text = "Interrupted" if isinstance(error, KeyboardInterrupt) else f"Error: {described(error)}"
    click.echo(printable(text), err=True)


def _quiet_loggers() -> None:
    """Print warnings of the controller as plain lines, and no tracebacks: their errors end the run."""
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter("%(message)s"))
    handler.addFilter(lambda record: not record.exc_info)
    logging.getLogger().addHandler(handler)
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of processes that have ended before they are killed


def _coloured(*, no_color: bool, json: bool) -> bool:
    """Return whether lines are printed in colours: on a terminal that can, unless the user wants none."""
    stream = sys.stderr if json else sys.stdout
    return stream is not None and stream.isatty() and not no_color and not wants_no_colours()

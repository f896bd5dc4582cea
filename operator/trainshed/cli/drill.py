"""`trainshed drill`: whether a job survives faults, seen on this machine."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import Any

import click

from trainshed import rendering
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Document
from trainshed.drill import faults
from trainshed.drill.course import Drill, DrillOptions, Interrupted, with_replicas
from trainshed.drill.outcome import DrillOutcome, as_json, as_junit, as_markdown, as_text
from trainshed.drill.verdict import Grade
from trainshed.local.options import RUNTIMES, LocalJob, Refused, check_size
from trainshed.local.output import printable
from trainshed.local.run import INTERRUPTED
from trainshed.local.runtimes.python import NoPython
from trainshed.local.state_folder import Unusable, default_place
from trainshed.local.tasks import described

from . import local_jobs, sources, whole_files
from .parameters import Finite

#: The exit codes: all faults were survived, one was not, and none that was seen but some were not.
CODES = {Grade.PASSED: 0, Grade.FAILED: 1, Grade.UNSEEN: 3}
#: The seconds of a run if the user says nothing.
TIMEOUT = 600.0


@click.command()
@sources.filename
@sources.recursive
@local_jobs.in_namespace
@click.option(
    "--runtime",
    type=click.Choice(RUNTIMES),
    default="auto",
    show_default=True,
    help="How replicas run, as for trainshed run.",
)
@local_jobs.with_python
@click.option("--quick", is_flag=True, help="Four faults in two minutes: kill-rank, suspend, resize, kill-in-write.")
@click.option("--script", type=click.Path(dir_okay=False), default=None, help="YAML file with the faults, in order.")
@click.option("--steps", type=click.IntRange(min=faults.FEWEST), help="Last step of interest; without it the end.")
@click.option(
    "--replicas", multiple=True, metavar="ROLE=N", help="Other number of replicas, such as Worker=2. May be repeated."
)
@click.option(
    "--checkpoints", type=click.Path(file_okay=False), help="Folder of this machine in which the job saves; empty."
)
@click.option(
    "--tolerance",
    type=Finite(0, 1),
    default=0.1,
    show_default=True,
    help="How far the loss may be off, in parts of the range of losses of the run without a fault.",
)
@click.option("--timeout", type=Finite(min=5), default=TIMEOUT, help="Seconds for each run (600).")
@click.option("--output", "form", type=click.Choice(("text", "json", "md")), default="text", help="Form of the report.")
@click.option("--junit", type=click.Path(dir_okay=False), help="File for the report as XML of JUnit.")
@click.option(
    "--state", type=click.Path(file_okay=False), help="Where the folder trainshed-drills is (default: ~/.local/state)."
)
@click.option("--yes", is_flag=True, help="Run a job from a URL without asking.")
def drill(files: tuple[str, ...], *, recursive: bool, namespace: str, **options: Any) -> None:  # noqa: ANN401 - click's own
    """Run a job on this machine under faults, and say what it has survived.

    The job runs once without a fault, and once with each: a replica or all of them are killed, evicted, lost, out of
    memory, suspended, stopped, started again with another number of workers, killed while a checkpoint is written.
    Steps and losses are read from its output. The exit code is 0 if all faults were survived, 1 if one was not, and 3
    if some could not be seen.
    """
    logging.getLogger().addHandler(logging.NullHandler())  # what goes wrong ends the run, and the drill says it
    try:
        _check_place(options["junit"])
        outcome = _drill(files, recursive=recursive, namespace=namespace, options=options)
    except (Refused, NoPython, Unusable, faults.BadScript, OSError) as error:
        text = described(error) if isinstance(error, OSError) else str(error)
        raise click.ClickException("\n".join(map(printable, text.splitlines()))) from error
    except (Interrupted, KeyboardInterrupt) as error:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # another Ctrl-C would interrupt Python's own end
        where = f"; logs and checkpoints until then: {error}" if str(error) else ""
        click.echo(printable(f"interrupted{where}"), err=True)
        sys.exit(INTERRUPTED)
    _report(outcome, options)
    sys.exit(CODES[outcome.grade])


def _report(outcome: DrillOutcome, options: dict[str, Any]) -> None:
    """Print the report, and then write the file with it, which may fail."""
    if options["form"] == "text":
        for line in as_text(outcome):
            click.echo(printable(line))
    else:
        click.echo(as_json(outcome) if options["form"] == "json" else as_markdown(outcome), nl=False)
    if options["junit"]:
        try:
            whole_files.write(Path(options["junit"]), as_junit(outcome), 0o600)
        except OSError as error:
            raise click.ClickException(f"--junit: {printable(described(error))}") from error


def _check_place(junit: str | None) -> None:
    """Raise `Refused` at the start if there is no folder for the file of the report."""
    if junit and not Path(junit).absolute().parent.is_dir():
        raise Refused(f"--junit {junit}: there is no such folder")


def _drill(files: tuple[str, ...], *, recursive: bool, namespace: str, options: dict[str, Any]) -> DrillOutcome:
    script = faults.read(Path(options["script"])).faults if options["script"] else None
    if script and options["quick"]:
        raise Refused("--quick has faults of its own; leave it out, or --script")
    jobs, objects = local_jobs.read(files, recursive=recursive, namespace=namespace, unasked=options["yes"])
    if len(jobs) != 1:
        names = ", ".join(f"{item.job.kind} {item.job.name}" for item in jobs)
        raise Refused(f"a drill is of one job; there are {len(jobs)}: {names}")

    def make(document: Document) -> LocalJob:
        found = rendering.rendered(document, namespace, JobDefaults())
        if problems := rendering.problems(found.job):
            raise Refused("\n".join(problems))
        check_size([found.job])
        return local_jobs.made(document, found, namespace)

    item = jobs[0]
    if options["replicas"]:
        item = make(with_replicas(item, dict(map(_count, options["replicas"]))))
    return Drill(
        item,
        tuple(objects),
        DrillOptions(
            faults=script or (faults.QUICK if options["quick"] else faults.FULL),
            state=Path(options["state"] or default_place()).absolute(),
            make=make,
            say=lambda text: click.echo(printable(text) if text.strip() else text, err=options["form"] != "text"),
            runtime=options["runtime"],
            python=options["python"],
            steps=options["steps"],
            saves=Path(options["checkpoints"]).absolute() if options["checkpoints"] else None,
            tolerance=options["tolerance"],
            timeout=options["timeout"],
            quick=options["quick"],
        ),
    ).run()


def _count(text: str) -> tuple[str, int]:
    role, _, count = text.rpartition("=")
    if not role or not (count.isascii() and count.isdecimal()) or len(count) > 6:  # noqa: PLR2004 - 999,999 are more than any run has
        raise click.BadParameter(f"{text!r} is not a type of replicas and a number, such as Worker=2")
    return role, int(count)

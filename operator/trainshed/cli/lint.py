"""`trainshed lint`: what the API server refuses in jobs, and what a careful colleague would say, without a cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass

import click

from trainshed.api.foreign_text import one_line
from trainshed.api.framework import JobDefaults
from trainshed.frameworks import ALL_VERSIONS
from trainshed.lint import RULES, findings
from trainshed.manifests.manifest import Manifest
from trainshed.rendering import rendered, without_nulls

from . import sources

#: The severities, with their colours on a terminal.
ERROR, WARNING = "error", "warning"
LINE = re.compile(r", line (\d+)")
COLOURS = {ERROR: "red", WARNING: "yellow"}


@dataclass(frozen=True, slots=True)
class FindingLine:
    """What is printed about a job or one of its pods: where it stands in a file, and a finding.

    An error of the API server has neither a rule nor advice.
    """

    place: str
    object: str
    severity: str
    rule: str
    path: str
    message: str
    advice: str

    def __str__(self) -> str:
        head = f"{self.place}: {click.style(self.severity, COLOURS[self.severity])}: {self.object}: {self.path}"
        end = "" if self.message.endswith((".", "?", "!")) else "."
        return f"{head} {self.message}{end} {self.advice} ({self.rule})" if self.rule else f"{head}: {self.message}"

    @property
    def line(self) -> int:
        """The number of its line in the file; 0 if that is not known."""
        return int(next(iter(LINE.findall(self.place)), 0))


@click.command()
@sources.filename
@sources.recursive
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of jobs that do not set it.")
@click.option(
    "--disable",
    multiple=True,
    type=click.Choice(list(RULES)),
    metavar="RULE",
    help="Leave out a rule, such as no-memory-limit. May be repeated.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 also if there are only warnings.")
@click.option("-o", "--output", "form", type=click.Choice(["json"]), help="Print the findings as JSON.")
def lint(files: tuple[str, ...], *, recursive: bool, namespace: str, **options: object) -> None:
    """Check jobs before they are submitted, without a cluster.

    Errors are what the API server refuses, in its own words. Warnings are what a careful colleague would say; each has
    the name of its rule, which docs/check.md explains. The exit code is 1 if there are errors.
    """
    disabled: Collection[str] = options["disable"]  # type: ignore[assignment] # click's
    jobs = sources.selected(files, recursive=recursive).jobs
    lines = [line for job in jobs for line in sorted(_lines(job, namespace, disabled), key=lambda found: found.line)]
    if options["form"]:
        click.echo(json.dumps([asdict(line) for line in lines], indent=4, ensure_ascii=False))
    else:
        for line in lines:
            click.echo(line)
    errors, warnings = (sum(line.severity == severity for line in lines) for severity in (ERROR, WARNING))
    click.echo(f"{_count(len(jobs), 'job')}: {_count(errors, ERROR)}, {_count(warnings, WARNING)}", err=True)
    raise SystemExit(1 if errors or (warnings and options["strict"]) else 0)


def _lines(manifest: Manifest, namespace: str, disabled: Collection[str]) -> Iterator[FindingLine]:
    """Yield what there is to say about a job; one that the server refuses has only errors."""
    created = rendered(manifest.document, namespace, JobDefaults())
    job = created.job
    for problem in sources.refused(created, with_pods=True):
        subject, path, message = (*problem.split(": ", 2), "", "")[:3]
        place = one_line(sources.place_of(problem, manifest, created))
        yield FindingLine(place, *map(one_line, (subject, ERROR, "", path, message, "")))
    if job.problems:
        return
    subject = f"{job.kind} {job.name}"
    for found in findings(without_nulls(manifest.document), job, ALL_VERSIONS[manifest.head], disabled):
        severity, place = ERROR if found.is_error else WARNING, one_line(manifest.place_of(found.path))
        yield FindingLine(
            place, *map(one_line, (subject, severity, found.rule, found.path, found.message, found.advice))
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

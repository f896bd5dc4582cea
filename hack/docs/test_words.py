"""The pages name only existing make targets, flags, chart values, metrics, alerts, annotations and headings."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import click
import pytest

from trainshed.api import job_annotations
from trainshed.cli import COMMANDS, cli

from .commands import ROOT

PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions")
PAGES += [ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY", "examples/README")]
MAKEFILE = (ROOT / "Makefile").read_text()
#: Other programs; flags on a line with one of them are not checked.
OTHERS = re.compile(
    r".*\b(?:kubectl|helm|docker|horovodrun|kind|mkdocs|cosign|gh|sha256sum|buildah|python -m|embed\.py|make)\b.*"
)
#: Flags of other programs that a page names on a line without the program.
FOREIGN = {
    "--grace-period": "kubectl",
    "--force": "kubectl",
    "--type": "kubectl",
    "--patch": "kubectl",
    "--serviceaccount": "oc",
    "--context": "kubectl",
    "--set": "helm",
    "--runtime-config": "kube-apiserver",
    "--max-request-bytes": "etcd",
    "--feature-gates": "the programs of Kubernetes",
    "--take-ownership": "helm",
    "--gpus": "docker",
    "--horizontal-pod-autoscaler-downscale-stabilization": "kube-controller-manager",
    "--blacklist-cooldown-range": "horovodrun",
    "--network-interface": "horovodrun",
    "--cascade": "kubectl",
    **dict.fromkeys(("--node-rank", "--nnodes", "--master-addr", "--standalone", "--max-restarts"), "torchrun"),
}
#: Annotations on pods, and other names with the prefix of the annotations.
NOT_ON_JOBS = {
    "trainshed.dev/restart-attempt",
    "trainshed.dev/template-hash",
    "trainshed.dev/job-service",
    "trainshed.dev/job-tracking",
    "trainshed.dev/last-applied-hash",
}
#: Where pages are named that are no pages themselves: messages, comments and descriptions.
NAMERS = ("operator", "charts", "crds", "manifests", "examples", "Makefile", ".github")
NAMED = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


@NAMED
def test_every_make_target_exists(page: Path):
    known = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))
    named = re.findall(r"(?:`|\$ )make ([a-z0-9-]+)", page.read_text())
    assert [target for target in named if target not in known] == []


@NAMED
def test_every_flag_exists(page: Path):
    known = {flag for name in COMMANDS for flag in _flags(_command(name))} | FOREIGN.keys()
    text = re.sub(r"```yaml.*?```", "", page.read_text(), flags=re.DOTALL)
    lines = (line for line in text.splitlines() if not OTHERS.fullmatch(line))
    named = [flag for line in lines for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", line)]
    assert [flag for flag in named if flag not in known] == []


@NAMED
def test_every_chart_value_exists(page: Path):
    schema = json.loads((ROOT / "charts" / "trainshed" / "values.schema.json").read_text())
    settings = re.findall(r"--set[= ]'?([^\s`']+)", page.read_text())
    settings += re.findall(
        r"`((?:monitoring|crds|serviceAccountPolicy|annotationPolicy|networkPolicy|mpi|kinds)\.(?!py`)[\w.]+)`",
        page.read_text(),
    )
    named = [part.partition("=")[0] for text in settings for part in re.sub(r"\{[^}]*\}", "", text).split(",")]
    assert [name for name in named if not _described(schema, name.split("."))] == []


@NAMED
def test_every_metric_and_alert_exists(page: Path):
    metrics, alerts = (ROOT / place for place in ("docs/metrics.md", "charts/trainshed/files/alerts.yaml"))
    known = metrics.read_text() + alerts.read_text()
    named = re.findall(r"(?<!\w)(?:trainshed_[a-z_]+|training_operator_[a-z_]+|Trainshed[A-Z]\w+)\b", page.read_text())
    assert [name for name in named if not re.search(rf"\b{name}\b", known)] == []


def annotation_names() -> set[str]:
    return {value for value in vars(job_annotations).values() if str(value).startswith(job_annotations.PREFIX)}


@NAMED
def test_every_annotation_exists(page: Path):
    known = annotation_names() | NOT_ON_JOBS
    named = re.findall(r"(?<![\w.])trainshed\.dev/[\w-]+", page.read_text())
    assert [name for name in named if name not in known] == []


def test_every_annotation_is_documented():
    page = (ROOT / "docs" / "api-reference.md").read_text()
    assert {name for name in annotation_names() - {job_annotations.PREFIX} if f"| `{name}` |" not in page} == set()


@NAMED
def test_every_anchor_is_a_heading(page: Path):
    text = page.read_text()
    links = re.findall(r"\]\((?![a-z]+:)([^)#\s]*)#([^)\s]+)\)", text)
    broken = [(target, anchor) for target, anchor in links if anchor not in _anchors(page, target)]
    assert broken == []


def test_every_page_that_code_and_manifests_name_exists():
    found = subprocess.run(
        ["git", "grep", "-noE", r"docs/[a-z0-9/-]+\.md(#[a-z0-9-]+)?", "--", *NAMERS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    named = {line: line.rsplit(":", 1)[1].partition("#") for line in found.stdout.splitlines()}
    assert len(named) > 50
    missing = {line for line, (target, _, _) in named.items() if not (ROOT / target).exists()}
    known = {target: _anchors(ROOT / target, "") for line, (target, _, _) in named.items() if line not in missing}
    lost = {line for line, (target, _, anchor) in named.items() if anchor and anchor not in known.get(target, ())}
    assert sorted(missing | lost) == []


def _anchors(page: Path, target: str) -> set[str]:
    text = (page.parent / target).read_text() if target else page.read_text()
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    plain = (re.sub(r"\[([^]]+)\]\([^)]+\)|`", r"\1", heading).strip().lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def _command(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def _flags(command: click.Command) -> set[str]:
    options = (option for option in command.params if isinstance(option, click.Option))
    return {flag for option in options for flag in (*option.opts, *option.secondary_opts)} | {"--help", "--version"}


def _described(schema: dict, path: list[str]) -> bool:
    return not path or (path[0] in schema.get("properties", {}) and _described(schema["properties"][path[0]], path[1:]))

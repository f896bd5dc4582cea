"""The how-to pages: their jobs render, their values exist in the chart, and each page says how it was tested."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from charts.conftest import helm
from charts.rendering import Release
from trainshed.cli import cli

from . import how_to

__all__ = ["helm"]

EACH = pytest.mark.parametrize("page", how_to.PAGES, ids=lambda page: page.stem)
JOBS = [(page.stem, job) for page in (*how_to.PAGES, how_to.TEN_JOBS) for job in how_to.jobs(page)]
VALUES = [(page.stem, text) for page in (*how_to.PAGES, how_to.MONITORING) for text in how_to.values(page)]


def test_the_table_of_contents_has_every_page():
    folder = how_to.FOLDER.parent
    contents = (folder / "README.md").read_text()
    pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")} - {"README.md"}
    assert [page for page in sorted(pages) if "decisions/" not in page and f"({page})" not in contents] == []


def test_the_site_has_the_pages_of_the_table_of_contents_in_its_order():
    root, _, table = (how_to.FOLDER.parent / "README.md").read_text().partition("## All pages")
    assert root
    linked = [re.sub(r"^\.\./", "repository/", page) for page in re.findall(r"\]\(([^)#]+\.md)\)", table)]
    _, _, listed = (how_to.ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    assert ["README.md", *linked] == re.findall(r": (\S+\.md)$", listed, re.MULTILINE)


@EACH
def test_every_page_is_in_the_navigation_and_says_what_was_tried(page: Path):
    text = page.read_text()
    assert f"how-to/{page.name}" in (how_to.FOLDER.parents[1] / "mkdocs.yml").read_text()
    assert f"how-to/{page.name}" in (how_to.FOLDER.parent / "README.md").read_text()
    assert text.count("\n## What was tried\n") == 1
    assert len(how_to.manifests(page)) + len(how_to.values(page)) > 0


@pytest.mark.parametrize(("page", "job"), JOBS)
def test_every_job_renders(page: str, job: dict):
    done = CliRunner().invoke(cli, ["render", "-f", "-"], input=yaml.safe_dump(job))
    assert done.exit_code == 0, f"{page}: {done.output}"
    pods = [item for item in yaml.safe_load_all(done.output) if item["kind"] == "Pod"]
    groups = next(value for name, value in job["spec"].items() if name.endswith("ReplicaSpecs"))
    assert len(pods) == sum(group["replicas"] for group in groups.values())


@pytest.mark.parametrize(("page", "text"), VALUES)
@pytest.mark.usefixtures("helm")
def test_every_block_of_values_is_accepted_by_the_chart(page: str, text: str, tmp_path: Path):
    file = tmp_path / "values.yaml"
    file.write_text(text)
    changed = Release().documents(file, "crds.install=false")
    assert changed != Release().documents(None, "crds.install=false"), page


@EACH
def test_every_python_block_is_valid(page: Path):
    for body in how_to.code(page, "python"):
        ast.parse(body)

"""What users name in settings, jobs and queries is listed, and the changelog names what was removed of it."""

from __future__ import annotations

import re
from pathlib import Path

from trainshed.api import job_annotations
from trainshed.cli.operator import operator

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("interface.txt")
#: Names in the first columns of the tables of metrics; those with labels are followed by them.
METRIC = re.compile(r"^\| `([a-z_]+)[`{]", re.MULTILINE)


def present() -> set[str]:
    """The flags of the operator, the annotations of jobs and the metrics that there are."""
    flags = {option for parameter in operator.params for option in (*parameter.opts, *parameter.secondary_opts)}
    annotations = {*job_annotations.ANNOTATIONS}
    return flags | annotations | set(METRIC.findall((ROOT / "docs" / "metrics.md").read_text()))


def unannounced(removed: set[str], changelog: str) -> set[str]:
    """Those of these names that no part *Removed* of a changelog has."""
    parts = re.findall(r"^### Removed\n(.*?)(?=^##|\Z)", changelog, re.MULTILINE | re.DOTALL)
    return removed - {name for part in parts for name in re.findall(r"`([^`]+)`", part)}


def test_every_flag_annotation_and_metric_is_listed():
    new = present() - set(LIST.read_text().split())
    assert new == set(), f"add these to {LIST.name}, so that their removal will be noticed"


def test_the_changelog_names_what_was_removed():
    removed = set(LIST.read_text().split()) - present()
    assert unannounced(removed, (ROOT / "CHANGELOG.md").read_text()) == set()


def test_only_the_part_of_removals_announces_one():
    changelog = "## [2]\n### Added\n- `--new`\n\n### Removed\n- `--old`, by `--new`\n\n## [1]\n### Added\n- `--gone`\n"
    assert unannounced({"--old", "--gone"}, changelog) == {"--gone"}

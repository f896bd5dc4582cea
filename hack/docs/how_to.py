"""The manifests of the how-to pages: every YAML block, as objects for the API server or as values of the chart."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from .commands import ROOT

FOLDER = ROOT / "docs" / "how-to"
PAGES = sorted(FOLDER.glob("*.md"))
#: The page whose jobs tests apply, and whose texts they compare.
TEN_JOBS = ROOT / "docs" / "ten-jobs.md"
#: The page with values of the chart for monitoring.
MONITORING = ROOT / "docs" / "metrics.md"
#: The first line of a block that contains values of the chart.
VALUES = "# values of the chart"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)

Document = dict[str, Any]


def code(page: Path, language: str) -> list[str]:
    """Return the blocks of a page in this language."""
    return [body for found, body in BLOCK.findall(page.read_text()) if found == language]


def values(page: Path) -> list[str]:
    """Return the blocks with values of the chart."""
    return [body for body in code(page, "yaml") if body.startswith(VALUES)]


def manifests(page: Path) -> list[Document]:
    """Return the objects of all other blocks; raise KeyError for a block that is not an object."""
    blocks = (body for body in code(page, "yaml") if not body.startswith(VALUES))
    documents = [document for body in blocks for document in yaml.safe_load_all(body)]
    return [document for document in documents if document["apiVersion"] and document["kind"]]


def jobs(page: Path) -> list[Document]:
    """Return the jobs of a page."""
    return [document for document in manifests(page) if document["apiVersion"].startswith("kubeflow.org/")]

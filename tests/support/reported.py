"""The inputs that once went wrong, which lie in tests/reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "reported"


def documents(name: str) -> list[dict[str, Any]]:
    """Return the documents of an input, without the extension of its file."""
    return list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")))


def job(name: str) -> dict[str, Any]:
    """Return the training job of an input, in the namespace of the tests."""
    (found,) = [item for item in documents(name) if item["apiVersion"].startswith("kubeflow.org/")]
    return {**found, "metadata": {"namespace": "ml", "uid": "job-uid", **found["metadata"]}}

"""What kubectl's libraries read and write (hack/testbed/tools/kubeyaml), and a table of scalars with their answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from testbed.binaries import own

#: Scalars as documents, each with the value that kubectl reads, or "refused". `python -m support.kubeyaml` renews it.
TABLE = Path(__file__).with_name("scalars.json")


def table() -> list[dict[str, Any]]:
    """Return the scalars and the answers that are kept with the tests."""
    found: list[dict[str, Any]] = json.loads(TABLE.read_text())
    return found


def answers(requests: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers of kubectl's libraries: `json` or `yaml`, or `error`."""
    lines = "".join(json.dumps(request, ensure_ascii=False) + "\n" for request in requests)
    done = subprocess.run([str(own("kubeyaml", 1))], input=lines.encode(), capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def renewed() -> list[dict[str, Any]]:
    """Return the table with the answers of kubectl's libraries."""
    texts = [row["text"] for row in table()]
    return [
        {"text": text, **({"refused": True} if "error" in answer else {"json": answer["json"][0]})}
        for text, answer in zip(texts, answers({"document": text} for text in texts), strict=True)
    ]


if __name__ == "__main__":
    TABLE.write_text("[\n" + ",\n".join(map(json.dumps, renewed())) + "\n]\n")

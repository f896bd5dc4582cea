"""docs/architecture.md has each request and each field of the messages that the launcher and its client exchange."""

from __future__ import annotations

import ast
import re

from .commands import ROOT

LOCAL = ROOT / "operator/trainshed/local"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").partition("\n## The launcher\n")[2]
#: Where messages are written and read.
MODULES = [
    *(LOCAL / "launcher").glob("*.py"),
    *(LOCAL / "runtimes" / f"{name}.py" for name in ("launcher_client", "linux_namespaces", "processes")),
]
#: What only the launcher itself adds to a request.
OWN = {"files"}


def test_the_page_has_each_request_and_no_other() -> None:
    (handled,) = (node for node in ast.walk(_tree("launcher/launcher.py")) if isinstance(node, ast.Match))
    cases = {case.pattern.value.value for case in handled.cases if isinstance(case.pattern, ast.MatchValue)}
    sent = {message["op"] for message in _messages() if "op" in message}
    rows = re.findall(r"^\| `(\w+)` \| (?:`id`.*)?\| (?:one|none|`\{)", PAGE, re.MULTILINE)
    assert {*rows} == {*cases, "sandbox"} == sent


def test_the_page_has_each_field() -> None:
    marks = {"op", "id", "argv", "exit", "memory", "error"}
    written = {field for message in _messages() if message.keys() & marks for field in message}
    source = "".join(path.read_text() for path in MODULES)
    read = set(re.findall(r"(?:message|bridge)(?:\[|\.get\()['\"](\w+)", source))
    rows = " ".join(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE))
    assert {"argv", "mounts", "memory", "reason"} <= written | read
    assert sorted((written | read) - {*re.findall(r"\w+", rows)} - OWN) == []


def _messages() -> list[dict[str, object]]:
    """Return each literal dictionary, with its values that are literals too."""
    nodes = [node for path in MODULES for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Dict)]
    return [
        {
            str(key.value): getattr(value, "value", None)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        }
        for node in nodes
    ]


def _tree(name: str) -> ast.Module:
    return ast.parse((LOCAL / name).read_text())

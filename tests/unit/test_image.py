"""The operator's image has the pinned packages, and neither a build tool nor a Kubernetes client."""

from __future__ import annotations

import re
from pathlib import Path

from testbed.images import OPERATOR_BASE

ROOT = Path(__file__).resolve().parents[2]


def test_neither_a_kubernetes_client_nor_a_build_tool_is_pinned_for_the_image():
    names = set(re.findall(r"^([\w.-]+)==", (ROOT / "constraints" / "operator.txt").read_text(), re.MULTILINE))
    assert not names & {"kubernetes", "kubernetes-asyncio", "pip", "setuptools", "wheel", "pytest"}
    assert "kopf" in names


def test_the_image_is_built_from_one_pinned_base_without_build_tools_and_root():
    text = (ROOT / "Dockerfile").read_text()
    assert 'for n in ("pip", "setuptools", "wheel", "ensurepip", "kubernetes")' in text
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert bases == ["${BASE}", "${BASE}"], "one argument pins both stages"
    assert re.findall(r"^ARG BASE=(\S+)", text, re.MULTILINE) == [OPERATOR_BASE], "the test cluster has its replacement"
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", text, re.MULTILINE)

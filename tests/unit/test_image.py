"""The operator's image has the pinned packages, and neither a build tool nor a Kubernetes client."""

from __future__ import annotations

import json
import re
from pathlib import Path

from testbed.images import COMMANDS, KUBECTL_DELIVERY, OPERATOR_BASE
from trainshed.api.framework import JobDefaults
from trainshed.config import INIT_IMAGE

ROOT = Path(__file__).resolve().parents[2]
BY_DIGEST = r"(\S+:\S+)@sha256:[0-9a-f]{64}"


def pinned(dockerfile: str, argument: str) -> list[str]:
    """The images, without their digests, that a Dockerfile's argument names by digest."""
    return re.findall(rf"^ARG {argument}={BY_DIGEST}$", dockerfile, re.MULTILINE)


def test_neither_a_kubernetes_client_nor_a_build_tool_is_pinned_for_the_image():
    names = set(re.findall(r"^([\w.-]+)==", (ROOT / "constraints" / "operator.txt").read_text(), re.MULTILINE))
    assert not names & {"kubernetes", "kubernetes-asyncio", "pip", "setuptools", "wheel", "pytest"}
    assert "kopf" in names


def test_the_image_is_built_from_one_pinned_base_without_build_tools_and_root():
    text = (ROOT / "Dockerfile").read_text()
    assert 'for n in ("pip", "setuptools", "wheel", "ensurepip", "kubernetes")' in text
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert bases == ["${BASE}", "${BASE}"], "one argument pins both stages"
    (base,) = pinned(text, "BASE")
    assert base == OPERATOR_BASE, "the test cluster has its replacement"
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", text, re.MULTILINE)


def test_the_image_that_delivers_kubectl_is_built_from_pinned_images_and_does_what_its_replacement_does():
    text = (ROOT / "kubectl-delivery.Dockerfile").read_text()
    (kubectl,), (base,) = pinned(text, "KUBECTL"), pinned(text, "BASE")
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${KUBECTL}", "${BASE}"]
    assert re.fullmatch(rf"{base}@sha256:\w+", INIT_IMAGE), "one release of Alpine"
    assert JobDefaults().mpi_kubectl_image == KUBECTL_DELIVERY
    assert KUBECTL_DELIVERY.rpartition(":")[2] == kubectl.rpartition(":")[2], "the tag is kubectl's release"
    (command,) = re.findall(r"^CMD (.+)$", text, re.MULTILINE)
    assert tuple(json.loads(command)) == COMMANDS[KUBECTL_DELIVERY]

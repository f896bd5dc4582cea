"""The quick start, command by command as it stands on its page; what it shows is what they print."""

from __future__ import annotations

from pathlib import Path

from bed.binaries import binary
from docs.session import Session, walk

from .conftest import Kubectl


def test_the_quick_start_goes_as_its_page_says(kubeconfig: str, kubectl: Kubectl, tmp_path: Path) -> None:
    programs = (binary("kube", "kubectl"), binary("helm4", "helm"))
    session = Session(tmp_path, Path(kubeconfig), kubectl.command[-1], programs)
    assert walk(session, "cluster", "helm", "nothing") >= 4

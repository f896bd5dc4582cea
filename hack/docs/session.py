"""Runs the commands of a page in a shell with its own cluster."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import yaml

from .commands import ROOT, Block, blocks, unlike

QUICK_START = ROOT / "docs" / "quick-start.md"


class Session:
    """A shell in `root`, the root of the repository or of a checkout of another version.

    `programs` are added to the PATH. `kubeconfig`, if given, is copied, with `namespace` as its default namespace.
    `options` maps the beginning of a command to options that this machine adds to it.
    """

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path | None,
        namespace: str,
        programs: Iterable[Path],
        *,
        environment: Mapping[str, str] = os.environ,
        options: Mapping[str, str] = MappingProxyType({}),
        root: Path = ROOT,
    ) -> None:
        shelf = folder / "programs"
        shelf.mkdir()
        for program in programs:
            (shelf / program.name).symlink_to(program)
        copy = folder / "kubeconfig"
        if kubeconfig:
            config = yaml.safe_load(kubeconfig.read_text())
            for context in config["contexts"]:
                context["context"]["namespace"] = namespace
            copy.write_text(yaml.safe_dump(config))
        self._environment = dict(environment) | {"KUBECONFIG": str(copy), "PATH": f"{shelf}:{environment['PATH']}"}
        self._options, self._root = options, root

    def run(self, block: Block) -> None:
        """Run each command; raise AssertionError if one fails or does not print what the page shows.

        A block that needs `fails` has commands whose exit code is 1.
        """
        code = 1 if "fails" in block.needs else 0
        for step in block.steps:
            own = " ".join(added for start, added in self._options.items() if step.command.startswith(start))
            command = " ".join(filter(None, (step.command, block.adds, own)))
            outcome = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=self._root,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )
            assert outcome.returncode == code, f"$ {command}\n{outcome.stdout}{outcome.stderr}"
            missing = unlike(step.shown, outcome.stdout)
            assert not missing, f"$ {command}\ndid not print {missing!r}, but\n{outcome.stdout}"


def walk(session: Session, *having: str) -> Iterator[Block]:
    """Run the blocks of the quick start whose needs are in `having`, and yield each after it has run."""
    for block in blocks(QUICK_START.read_text()):
        if block.needs and block.needs <= set(having):
            session.run(block)
            yield block

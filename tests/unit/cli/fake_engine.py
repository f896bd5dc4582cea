"""A program that stands for docker and podman in PATH, and what tests ask of it."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from support.local_runs import SOON
from support.user_client import eventually

from . import fake_docker


class FakeEngine:
    """The state of the fake engine, and its calls."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def calls(self, *beginning: str) -> list[list[str]]:
        """Return the calls that begin with these words."""
        lines = (self.home / "calls").read_text().splitlines()
        return [words for words in map(json.loads, lines) if words[: len(beginning)] == list(beginning)]

    def left(self) -> list[str]:
        """Return the containers and networks that exist."""
        return sorted(path.name for kind in ("containers", "networks") for path in self.home.glob(f"{kind}/*"))

    def until_empty(self) -> None:
        eventually(lambda: not self.left(), SOON)


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """Put the program in PATH, with its state in a folder."""
    home, programs = folder / "engine", folder / "bin"
    (home / "images").mkdir(parents=True)
    (home / "images" / "x").touch()
    programs.mkdir()
    for name in ("docker", "podman"):
        script = f'#!/bin/sh\nexec "{sys.executable}" -P -S "{fake_docker.__file__}" "$@"\n'
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("FAKE_DOCKER", str(home))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return FakeEngine(home)


def containers(job: dict) -> list[dict]:
    """Return the containers of all replicas, which share their template."""
    return job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]


def options(words: list[str], name: str) -> list[str]:
    return [value for option, value in pairwise(words) if option == name]

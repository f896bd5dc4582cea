"""krew takes the manifest of a release, installs its archive, and kubectl runs the plugin."""

from __future__ import annotations

import io
import os
import platform
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

import krew
from testbed.binaries import binary
from trainshed.manifests.writer import write

VERSION = "1.2.3"
#: Go's names of processors.
PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of this platform: a script in place of the program, which runs this Trainshed."""
    path = tmp_path / f"kubectl-trainshed_{sys.platform}_{PROCESSORS[platform.machine()]}.tar.gz"
    script = f'#!/bin/sh\nexec "{sys.executable}" -m trainshed "$@"\n'.encode()
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo(krew.PROGRAM)
        info.size, info.mode = len(script), 0o755
        tar.addfile(info, io.BytesIO(script))
    return path


@pytest.fixture
def manifest(tmp_path: Path, archive: Path) -> Path:
    path = tmp_path / "trainshed.yaml"
    found = krew.manifest(VERSION, f"https://example.com/v{VERSION}", [archive])
    path.write_text(write([found]))
    return path


def run(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **env})


def test_the_validator_of_krew_accepts_the_manifest(manifest):
    done = run(binary("krew", "validate-krew-manifest"), "-manifest", manifest, "-skip-install")
    assert done.returncode == 0, done.stderr


def test_kubectl_runs_what_krew_has_installed(manifest, archive, tmp_path):
    installer = (binary("krew", "krew"), "install", f"--manifest={manifest}", f"--archive={archive}")
    root = tmp_path / "krew"
    path = os.pathsep.join((str(root / "bin"), os.environ["PATH"]))
    done = run(*installer, KREW_ROOT=str(root))
    assert done.returncode == 0, done.stderr
    said = run(binary("kube", "kubectl"), "trainshed", "--version", PATH=path)
    assert (said.returncode, version("trainshed") in said.stdout) == (0, True), said.stderr
    archive.write_bytes(archive.read_bytes() + b"x")
    changed = run(*installer, KREW_ROOT=str(tmp_path / "other"))
    assert (changed.returncode, "checksum does not match" in changed.stderr) == (1, True), changed.stderr

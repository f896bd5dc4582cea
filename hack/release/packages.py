"""The wheel, the source distribution, and the archives of the plugin of kubectl for each platform."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from krew import PROGRAM

from .repository import Release

#: The platforms of the plugin: krew's names, and those of wheels, the oldest systems first.
PLATFORMS = {
    "linux_amd64": ("manylinux2014_x86_64", "manylinux_2_28_x86_64"),
    "linux_arm64": ("manylinux2014_aarch64", "manylinux_2_28_aarch64"),
    "darwin_amd64": (
        "macosx_10_9_x86_64",
        "macosx_10_12_x86_64",
        "macosx_10_13_x86_64",
        "macosx_11_0_x86_64",
        "macosx_13_0_x86_64",
    ),
    "darwin_arm64": ("macosx_11_0_arm64", "macosx_12_0_arm64", "macosx_13_0_arm64", "macosx_14_0_arm64"),
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: The program of the plugin: it finds its packages beside itself, those for its version of Python first.
LAUNCHER = f"""#!/usr/bin/env python3
import os, sys
here = os.path.dirname(os.path.realpath(__file__))
version = "%d.%d" % sys.version_info[:2]
if version not in {PYTHONS}:
    sys.exit("{PROGRAM} needs Python {PYTHONS[0]} to {PYTHONS[-1]}, and python3 is " + version)
sys.path[:0] = [os.path.join(here, "lib", version), os.path.join(here, "lib", "any")]
from trainshed.__main__ import main
main()
"""


def run(*words: str | Path, **settings: str) -> None:
    """Run a command that must work, with these variables besides the environment."""
    environment = {**os.environ, "PIP_ROOT_USER_ACTION": "ignore", **settings}
    subprocess.run([str(word) for word in words], check=True, env=environment, stdout=subprocess.DEVNULL)


def distributions(python: Path, release: Release) -> Path:
    """Build the source distribution and the wheel, the same bytes each time; return the wheel."""
    tree, target, time = release.tree, release.target, release.time
    build = (python, "-m", "build", "--no-isolation", "--outdir", target)
    run(*build, "--sdist", tree, SOURCE_DATE_EPOCH=str(time))
    (source,) = target.glob("trainshed-*.tar.gz")
    uniform(source, time)
    run(*build, "--wheel", tree, SOURCE_DATE_EPOCH=str(time))
    (wheel,) = target.glob("trainshed-*.whl")
    run(python, "-m", "twine", "--no-color", "check", "--strict", wheel, source)
    return wheel


def uniform(archive: Path, time: int) -> None:
    """Write a .tar.gz again: its entries in the order of their names, of one time and of root."""
    with tarfile.open(archive) as tar:
        found = [(entry, file.read() if (file := tar.extractfile(entry)) else b"") for entry in tar]
    pack(archive, found, time)


def pack(archive: Path, entries: Iterable[tuple[tarfile.TarInfo, bytes]], time: int) -> None:
    """Write a .tar.gz that depends on its entries alone; it takes the place of an older one at once."""
    fresh = archive.with_name(f"{archive.name}.new")
    with (
        fresh.open("wb") as file,
        gzip.GzipFile("", "wb", mtime=time, fileobj=file) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for entry, content in sorted(entries, key=lambda item: item[0].name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.pax_headers = time, 0, 0, "", "", {}
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            tar.addfile(entry, io.BytesIO(content))
    fresh.rename(archive)


def plugins(wheel: Path, release: Release) -> list[Path]:
    """Write the archive of the plugin for each platform: the program, and all packages that it needs but Python."""
    return [plugin(platform, wheel, release) for platform in PLATFORMS]


def plugin(platform: str, wheel: Path, release: Release) -> Path:
    """Write the archive of one platform; packages that are the same for each Python are in it once."""
    work, pins = release.work / platform, release.tree / "constraints" / "command.txt"
    lib = work / "lib"
    for python in PYTHONS:
        tags = [f"--platform={tag}" for tag in PLATFORMS[platform]]
        pip = ("python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile")
        where = (
            f"--python-version={python}",
            "--implementation=cp",
            *tags,
            "--only-binary=:all:",
            "--target",
            lib / python,
        )
        run(*pip, *where, "--require-hashes", "-r", pins)
        shutil.rmtree(lib / python / "bin", ignore_errors=True)
    _share(lib)
    with zipfile.ZipFile(wheel) as packed:  # pip would write down where the wheel was on this machine
        packed.extractall(lib / "any")
    archive = release.target / f"{PROGRAM}_{platform}.tar.gz"
    program = tarfile.TarInfo(PROGRAM)
    program.size, program.mode = len(LAUNCHER), 0o755
    entries = [(program, LAUNCHER.encode())]
    for path in (path for path in lib.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        entry = tarfile.TarInfo(path.relative_to(work).as_posix())
        entry.size, entry.mode = path.stat().st_size, path.stat().st_mode
        entries.append((entry, path.read_bytes()))
    pack(archive, entries, release.time)
    return archive


def _share(lib: Path) -> None:
    """Move what is the same for each version of Python to one folder."""
    shared = lib / "any"
    shared.mkdir()
    for first in sorted((lib / PYTHONS[0]).iterdir()):
        copies = [lib / python / first.name for python in PYTHONS]
        if len({_content(path) for path in copies}) == 1:
            first.rename(shared / first.name)
            for other in copies[1:]:
                shutil.rmtree(other) if other.is_dir() else other.unlink()


def _content(path: Path) -> str:
    """Return a line for each file at or below a path, with its digest."""
    files = sorted(file for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    parts = [f"{file.relative_to(path.parent)} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files]
    return "\n".join(parts)

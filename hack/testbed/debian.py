"""Debian packages that the test bed needs on this machine, and file systems made of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from .places import alone, cache, state
from .steps import StepFailed, output, run, step

#: The package that brings a program, where they are not called the same.
PACKAGES = {"dockerd": "docker.io", "ip": "iproute2", "cc": "gcc libc6-dev"}
#: Directories that no program in a container reads.
JUNK = ("var/lib/apt/lists", "var/cache/apt/archives", "usr/share/doc", "usr/share/man", "usr/share/locale")


def ensure(*programs: str) -> None:
    """Install the packages of programs that are missing; raises StepFailed where that cannot be done."""
    with alone(state() / "apt.lock"):
        missing = [program for program in programs if not shutil.which(program, path=search_path())]
        if not missing:
            return
        packages = " ".join(PACKAGES.get(program, program) for program in missing).split()
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise StepFailed(f"{' and '.join(missing)} cannot be found.\nTry: install {' and '.join(packages)}")
        log = state() / "apt.log"
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        with step(f"installing {', '.join(packages)} with apt-get"):
            run(["apt-get", "update", "-q"], log, "are Debian's packages reachable?", env=environment)
            command = ["apt-get", "install", "-qy", "--no-install-recommends", *packages]
            run(command, log, "are Debian's packages reachable?", env=environment)


def search_path() -> str:
    """Return the PATH with the directories of administrators."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def bootstrap(folder: Path, packages: Iterable[str], release: str = "bookworm") -> None:
    """Make a file system of Debian with these packages; it trusts the same certificates as this machine."""
    ensure("debootstrap")
    include = f"--include={','.join(('ca-certificates', *packages))}"
    command = ["debootstrap", "--variant=minbase", include, release, folder, _mirror()]
    run(command, cache() / "logs" / f"image-{folder.stem}.log", hint="are Debian's packages reachable?")
    for junk in JUNK:
        shutil.rmtree(folder / junk, ignore_errors=True)
    authorities = Path("/etc/ssl/certs/ca-certificates.crt")
    if authorities.exists():
        shutil.copy(authorities, folder / "etc/ssl/certs/ca-certificates.crt")


def unpack(folder: Path, package: str) -> None:
    """Unpack one package that needs no setting up, as libraries do not."""
    log, hint = cache() / "logs" / f"image-{package}.log", "apt-get update, then try again"
    run(["apt-get", "download", package], log, hint, cwd=folder)
    (archive,) = folder.glob("*.deb")
    run(["dpkg-deb", "-x", archive, folder], log)
    archive.unlink()


def _mirror() -> str:
    """Return the mirror that apt uses on this machine."""
    found = output(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])
    wanted = (line for line in found.splitlines() if "security" not in line and "debian" in line)
    mirror = next(wanted, "")
    if not mirror:
        raise StepFailed("apt knows no Debian mirror: apt-get update, then try again")
    return mirror


def unpacked(package: str, program: str) -> Path:
    """Return a program of a package that is unpacked in the cache, and not set up: nothing starts by itself."""
    folder = cache() / "bin" / f"debian-{package}"
    found = folder / program
    with alone(state() / "apt.lock"):
        if not found.exists():
            if not shutil.which("apt-get"):
                raise StepFailed(f"{package} cannot be unpacked: there is no apt-get")
            folder.mkdir(parents=True, exist_ok=True)
            unpack(folder, package)
    return found

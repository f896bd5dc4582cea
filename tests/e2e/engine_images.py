"""The images of the docker engine of the test bed: stand-ins for those that it neither has nor can pull."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed import archives, docker, images


@contextmanager
def loaded(wanted: Iterable[str], folder: Path) -> Iterator[None]:
    """Let the engine have these images; those loaded here, by an archive in `folder`, are removed afterwards."""
    docker.start()
    missing = [name for name in wanted if not docker.can_have(name)]
    if missing:
        archive = folder / "images.tar"
        archives.write(archive, map(images.stand_in, missing))
        docker.docker("load", "--input", archive)
        archive.unlink()
    yield
    if missing:
        docker.docker("rmi", *missing)

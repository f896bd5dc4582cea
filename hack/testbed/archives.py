"""Archives: images of the form that `docker save` writes, which docker, kind and containerd can load, and unpacking."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .places import alone, cache
from .steps import run, step

ENV = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1")


@dataclass(frozen=True)
class Image:
    """An image: its name with a tag, its layers as tar files from the bottom up, and its command.

    A pod's `args` take the place of `command`, and leave `entrypoint` as it is.
    """

    name: str
    layers: tuple[Path, ...]
    command: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()


def write(path: Path, images: Iterable[Image]) -> None:
    """Write images into one archive; a layer that several of them have is in it once.

    kind reads which images there are from `repositories` if that comes first; the others read manifest.json.
    """
    images = tuple(images)
    configs = {image.name: _config(image) for image in images}
    repositories: dict[str, dict[str, str]] = {}
    for image in images:
        repository, _, tag = image.name.rpartition(":")
        repositories.setdefault(repository, {})[tag] = hashlib.sha256(configs[image.name]).hexdigest()
    manifest = [
        {
            "Config": f"{hashlib.sha256(configs[image.name]).hexdigest()}.json",
            "RepoTags": [image.name],
            "Layers": [f"{_digest(layer)}/layer.tar" for layer in image.layers],
        }
        for image in images
    ]
    fresh = path.with_name(f"{path.name}.new")
    with tarfile.open(fresh, "w") as tar:
        _add(tar, "repositories", json.dumps(repositories).encode())
        _add(tar, "manifest.json", json.dumps(manifest).encode())
        for entry, image in zip(manifest, images, strict=True):
            _add(tar, entry["Config"], configs[image.name])
        for digest, layer in {_digest(layer): layer for image in images for layer in image.layers}.items():
            tar.add(layer, f"{digest}/layer.tar")
    fresh.rename(path)


def _config(image: Image) -> bytes:
    layers = [f"sha256:{_digest(layer)}" for layer in image.layers]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": list(ENV), "Cmd": list(image.command), "Entrypoint": list(image.entrypoint) or None},
        "rootfs": {"type": "layers", "diff_ids": layers},
        "history": [{"created_by": layer.stem} for layer in image.layers],
    }
    return json.dumps(config).encode()


def _digest(layer: Path) -> str:
    """The SHA-256 of a layer, which is kept beside it."""
    known = layer.with_suffix(".sha256")
    if not known.exists() or known.stat().st_mtime_ns <= layer.stat().st_mtime_ns:
        with layer.open("rb") as file:
            known.write_text(hashlib.file_digest(file, "sha256").hexdigest())
    return known.read_text()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def unpacked(archive: Path, folder: Path, *options: str) -> Path:
    """Return `folder` with the content of an archive, unpacked if that is older than the archive; `options` are tar's.

    Processes that run beside each other unpack it once.
    """
    with alone(folder.with_suffix(".lock")):
        if not folder.exists() or folder.stat().st_mtime_ns < archive.stat().st_mtime_ns:
            fresh = folder.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            with step(f"unpacking {archive.name}"):
                run(["tar", "-C", fresh, *options, "-xf", archive], cache() / "logs" / f"unpack-{folder.name}.log")
            os.utime(fresh)  # an archive also has the time of its root
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
    return folder

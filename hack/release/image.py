"""The image of the operator as an OCI archive, for each processor for which its base can be had."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed import docker, kind

from .repository import Release, git

PLATFORMS = "linux/amd64,linux/arm64"
#: What is said of an image that has not all of them.
FOR_TRYING = (
    "it is for trying, and `make publish` refuses it; with BuildKit and a registry in reach it has all platforms"
)
INDEX, MANIFEST = "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"
CONFIG, LAYER = "application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip"


def build(release: Release) -> str:
    """Write the image as an OCI archive; return the digest of its index.

    BuildKit makes it for all processors. Where docker has none, or no registry has the base, it is made by docker's
    older builder for the processor of this machine, above the base of the test bed.
    """
    version, tree = release.version, release.tree
    revision = git(tree, "rev-parse", "HEAD")
    arguments = [f"--build-arg=VERSION={version}", f"--build-arg=REVISION={revision}"]
    archive = release.target / f"trainshed-{version}-image.tar"
    if _has_buildkit() and not kind.without_registry():
        command = ["docker", "buildx", "build", f"--platform={PLATFORMS}", "--provenance=false", *arguments]
        output = f"type=oci,dest={archive},rewrite-timestamp=true,name=trainshed:{version}"
        settings = docker.environment() | {"SOURCE_DATE_EPOCH": str(release.time)}
        subprocess.run([*command, f"--output={output}", str(tree)], check=True, env=settings)
        return index_digest(archive)
    kind.build_alone(f"trainshed:{version}", tree, *arguments)
    saved = release.work / "image.tar"
    docker.docker("save", "--output", saved, f"trainshed:{version}")
    return write({_processor(): saved}, archive, version, release.time)


def write(saved: Mapping[str, Path], archive: Path, version: str, time: int) -> str:
    """Write the images that `docker save` wrote, by processor, into one OCI archive; return the digest of its index.

    The layout is that of https://github.com/opencontainers/image-spec/blob/main/image-layout.md.
    """
    blobs: dict[str, bytes] = {}

    def stored(kind: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    manifests = []
    for processor, path in saved.items():
        with tarfile.open(path) as tar:
            read = lambda name, tar=tar: tar.extractfile(name).read()  # noqa: E731 - while the archive is open
            (listed,) = json.loads(read("manifest.json"))
            layers = [stored(LAYER, gzip.compress(_unpacked(read(name)), 6, mtime=time)) for name in listed["Layers"]]
            config = stored(CONFIG, read(listed["Config"]))
        content = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
        platform = {"os": "linux", "architecture": processor}
        manifests.append(stored(MANIFEST, json.dumps(content).encode()) | {"platform": platform})
    whole = stored(INDEX, json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).encode())
    named = whole | {"annotations": {"org.opencontainers.image.ref.name": version}}
    files = {f"blobs/sha256/{digest}": content for digest, content in blobs.items()}
    files["index.json"] = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}).encode()
    files["oci-layout"] = json.dumps({"imageLayoutVersion": "1.0.0"}).encode()
    with tarfile.open(archive, "w") as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), time, 0o644
            tar.addfile(entry, io.BytesIO(content))
    return str(whole["digest"])


def index_digest(archive: Path) -> str:
    """Return the digest of the only image of an OCI archive, by which a registry knows it."""
    with tarfile.open(archive) as tar:
        (image,) = json.load(tar.extractfile("index.json"))["manifests"]
    return str(image["digest"])


def platforms(archive: Path) -> str:
    """Return the platforms of the image of an OCI archive, in the form of PLATFORMS."""
    with tarfile.open(archive) as tar:
        read = lambda name: json.load(tar.extractfile(name))  # noqa: E731 - while the archive is open
        (image,) = read("index.json")["manifests"]
        inside = read(f"blobs/sha256/{image['digest'].removeprefix('sha256:')}").get("manifests", [image])
    found = (one.get("platform") or {} for one in inside)
    return ",".join(sorted(f"{one.get('os')}/{one.get('architecture')}" for one in found))


def _unpacked(layer: bytes) -> bytes:
    return gzip.decompress(layer) if layer.startswith(b"\x1f\x8b") else layer


def _processor() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


def _has_buildkit() -> bool:
    return subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode == 0

"""The cluster: kind's, with a kubeconfig of its own, and images in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial
from importlib.metadata import version
from pathlib import Path

import yaml

from . import archives, docker, images, node_image
from .binaries import binary
from .control_plane import AUDIT
from .places import HERE, ROOT, alone, digest, state, written
from .steps import StepFailed, output, run, side_by_side, step

NAME = "trainshed-dev"
LOG = "kind.log"
#: What docker says of a container that it removes already, and the seconds in which it should be gone.
BEING_REMOVED, REMOVAL = "is already in progress", 60
#: The nodes that run pods of jobs; the first node is the control plane.
WORKERS = (f"{NAME}-worker", f"{NAME}-worker2")
#: The folder in which they see archives of images.
IMAGES = "/images"


def kubeconfig() -> Path:
    """Return the path of the test bed's kubeconfig, which is never the user's own."""
    return state() / "kind.kubeconfig"


def exists() -> bool:
    """True if the cluster has containers, running or not. Asks docker, so kind does not have to be built."""
    nodes = ["docker", "ps", "--all", "--quiet", "--filter", f"label=io.x-k8s.kind.cluster={NAME}"]
    return docker.answers() and output(nodes, docker.environment()) != ""


def up(image: str = "", wanted: Iterable[str] = ()) -> None:
    """Start the cluster with `image`, and with those `wanted` public images that it cannot pull.

    Parts that run already stay as they are; independent steps run in parallel.
    """
    wanted = tuple(wanted)
    side_by_side(docker.start, lambda: binary("kind", "kind"))
    with alone(state() / "cluster.lock"):
        there = exists()
        if not there:
            _find_registry()
        side_by_side(_programs, lambda: _layers(wanted))
        if there and not _ready():
            down()  # a machine that was restarted, or a creation that was broken off
            there = False
        creating = () if there else (_create,)
        building = (lambda: _build(image, ROOT / "Dockerfile", ROOT),) if image else ()
        side_by_side(*creating, *building)
    if image:
        _load_built(image)
    load(wanted)


def down() -> None:
    """Take the cluster down."""
    if exists():
        with step("deleting the cluster"):
            _delete()
    kubeconfig().unlink(missing_ok=True)


def nodes() -> list[str]:
    """Return the lines of `kubectl get nodes`, or none if it fails."""
    command = [binary("kube", "kubectl"), "--kubeconfig", kubeconfig(), "get", "nodes", "--no-headers"]
    command.append("--request-timeout=15s")
    found = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
    return found.stdout.splitlines()


def build(reference: str, dockerfile: Path, context: Path) -> None:
    """Build an image with docker, and load it into the cluster."""
    _build(reference, dockerfile, context)
    _load_built(reference)


def build_alone(reference: str, context: Path, *options: str) -> None:
    """Build the operator's image from a tree, for no cluster."""
    docker.start()
    if without_registry():
        images.operator_base()
    _build(reference, context / "Dockerfile", context, *options)


def await_node(name: str) -> None:
    """Wait until a node is ready; raises StepFailed if it is not within three minutes."""
    command = [binary("kube", "kubectl"), "--kubeconfig", kubeconfig(), "wait", "--for=condition=Ready", f"node/{name}"]
    run([*command, "--timeout=180s"], state() / LOG)


def create_options(config: Path | None = None) -> list[str]:
    """Return the options of `kind create cluster`: a configuration, and an image where none can be pulled."""
    options = ["--image", node_image.build()] if without_registry() else []
    parts = [config] if config else []
    if docker.started_here():
        parts.append(HERE / "kind-restricted.yaml")
    if parts:
        merged: dict[str, object] = {}
        for part in parts:
            merged = _merged(merged, yaml.safe_load(part.read_text()))
        text = yaml.safe_dump(merged)
        options += ["--config", str(written(state() / f"kind-{digest(text)}.yaml", text))]
    return options


def build_options() -> list[str]:
    """Return the options of `docker build`: this machine's package index, which no image keeps, base and version."""
    wanted = ("PIP_INDEX_URL", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
    settings = [f"{name}={docker.environment()[name]}" for name in wanted if name in docker.environment()]
    settings.append(f"VERSION={version('trainshed')}")
    if without_registry():
        settings.append(f"BASE={images.OPERATOR_BASE}")
    network = ["--network=host"] if docker.started_here() else []
    return [*network, *(word for setting in settings for word in ("--build-arg", setting))]


def audit_log() -> Path:
    """Return the path of the audit log of the cluster's API server."""
    return state() / "kind-audit" / "audit.log"


def images_folder() -> Path:
    """Return the folder of this machine that the worker nodes see as IMAGES."""
    return state() / "kind-images"


def load(wanted: Iterable[str]) -> None:
    """Load the replacements of these public images into the worker nodes, where no registry has them."""
    wanted = tuple(wanted)
    if not without_registry():
        for name in images.DOCKERFILES.keys() & wanted:
            dockerfile = ROOT / "examples" / images.DOCKERFILES[name]
            build(name, dockerfile, dockerfile.parent)
        return
    with alone(state() / "load.lock"):
        known = output(["docker", "exec", WORKERS[-1], "crictl", "images", "--output=json"], docker.environment())
        missing = [name for name in wanted if f'"{name}"' not in known]
        if not missing:
            return
        _load_archive([images.stand_in(name) for name in missing])


def load_programs(version: str, *paths: Path) -> list[str]:
    """Load images of one program each into the worker nodes; return their names. Debian's C library is below each."""
    wanted = []
    for path in paths:
        layers = (images.base(), images.executable(path, digest(path.read_bytes())))
        wanted.append(images.Image(f"localhost/{path.name}:{version}", layers, entrypoint=(path.name,)))
    with alone(state() / "load.lock"):
        _load_archive(wanted)
    return [image.name for image in wanted]


def load_images(*wanted: images.Image) -> None:
    """Load images that no example names into the worker nodes, together."""
    with alone(state() / "load.lock"):
        _load_archive(list(wanted))


def _load_archive(wanted: list[images.Image]) -> None:
    """Load images that are made of layers into the worker nodes."""
    archive = images_folder() / "images.tar"
    _check_disk({layer for image in wanted for layer in image.layers})
    with step(f"loading {', '.join(image.name for image in wanted)}"):
        archives.write(archive, wanted)
        side_by_side(*(partial(_import, node, archive.name) for node in WORKERS))
        archive.unlink()


def _import(node: str, archive: str) -> None:
    """Import an archive that the node sees itself: `kind load` sends it through docker, ctr and a stream of gRPC."""
    command = ["ctr", "--namespace=k8s.io", "images", "import", "--local", "--digests", "--snapshotter=overlayfs"]
    docker.docker("exec", node, *command, f"{IMAGES}/{archive}")


def _programs() -> None:
    """Build the programs for users, and those for nodes if the node image has to be built."""
    for group, name in (("kube", "kubectl"), ("helm4", "helm")):
        binary(group, name)
    if without_registry():
        node_image.programs()


def _layers(wanted: Iterable[str]) -> None:
    """Make the layers of the images that cannot be pulled."""
    if without_registry():
        for name in wanted:
            images.stand_in(name)
        images.operator_base()
        node_image.layers()


def _build(reference: str, dockerfile: Path, context: Path, *options: str) -> None:
    with step(f"building {reference}"):
        if without_registry():
            with alone(state() / "base.lock"):  # a release may be made while the cluster is started
                _load_base()
        docker.docker("build", *build_options(), *options, "--tag", reference, "--file", dockerfile, context)


def _load_base() -> None:
    if not docker.has_image(images.OPERATOR_BASE):
        archive = state() / "base.tar"
        archives.write(archive, [images.operator_base()])
        docker.docker("load", "--input", archive)
        archive.unlink()


def _load_built(reference: str) -> None:
    size = int(output(["docker", "image", "inspect", "--format", "{{.Size}}", reference], docker.environment()))
    with step(f"loading {reference} ({size / 1e6:.0f} MB)"):
        _kind("load", "docker-image", reference, "--name", NAME)


def _create() -> None:
    written(state() / "audit-policy.yaml", AUDIT)  # kind.yaml names these four, from here
    for folder in (audit_log().parent, state() / "kind-shared", images_folder()):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    command = [binary("kind", "kind"), "create", "cluster", "--name", NAME, "--kubeconfig", kubeconfig()]
    command += ["--wait", "180s", *create_options(HERE / "kind.yaml")]
    with step("creating a kind cluster of three nodes (about a minute)"):
        hint = "docker info; docker system df; make cluster-down"
        run(command, state() / LOG, hint, env=docker.environment(), cwd=state())


def _delete() -> None:
    """Delete the containers; once more while docker removes one already, as after a deletion that was broken off."""
    end = time.monotonic() + REMOVAL
    while True:
        try:
            _kind("delete", "cluster", "--name", NAME, "--kubeconfig", kubeconfig())
        except StepFailed as error:
            if BEING_REMOVED not in str(error) or time.monotonic() > end:
                raise
        else:
            return
        time.sleep(2)


def _find_registry() -> None:
    """Pull the image of kind's nodes, and remember whether that was possible."""
    image, answer = node_image.published(), "yes"
    if not docker.has_image(image):
        with step(f"pulling {image.partition('@')[0]}"):
            try:
                docker.docker("pull", image)
            except StepFailed as error:
                answer, reason = "no", str(error).splitlines()[-1]
                print(f"It cannot be pulled: {reason}\nImages are built here instead.", file=sys.stderr)
    written(_registry(), answer)


def without_registry() -> bool:
    """Return whether public images could not be pulled when the cluster was created."""
    return _registry().exists() and _registry().read_text() == "no"


def _registry() -> Path:
    return state() / "registry"


def _check_disk(layers: Iterable[Path]) -> None:
    """Raise StepFailed without room for the layers: once in the archive, twice in each worker, which unpacks them."""
    needed = (1 + 2 * len(WORKERS)) * sum(layer.stat().st_size for layer in layers)
    free = shutil.disk_usage(state()).free
    if free < needed:
        sizes = f"Loading images takes {needed / 1e9:.0f} GB of disk, and {free / 1e9:.0f} GB are free."
        raise StepFailed(f"{sizes}\nTry: make room; docker system df says what docker keeps")


def _ready() -> bool:
    lines = nodes()
    return len(lines) == 3 and all(line.split()[1] == "Ready" for line in lines)


def _kind(*words: object) -> None:
    run([binary("kind", "kind"), *map(str, words)], state() / LOG, env=docker.environment())


def _merged(below: dict, above: dict) -> dict:
    """One configuration of two: mappings are merged, lists are put together."""
    merged = dict(below)
    for key, value in above.items():
        found = merged.get(key)
        if isinstance(found, dict):
            merged[key] = _merged(found, value)
        else:
            merged[key] = [*found, *value] if isinstance(found, list) else value
    return merged

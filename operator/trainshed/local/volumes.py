"""The volumes of a pod as folders of this machine, and where its containers mount them."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from trainshed.api.job import Document

from .cluster import CONFIG_MAP, SECRET
from .environment import ConfigError, EnvironmentResolver, PodFacts, expand, resource
from .runtime import Mount

#: The sources of volumes that can be had on this machine.
SOURCES = (
    *("configMap", "downwardAPI", "emptyDir", "ephemeral", "hostPath", "persistentVolumeClaim", "projected", "secret"),
)
#: The types of hostPath that are created on demand.
CREATED = (DIRECTORY, FILE) = ("DirectoryOrCreate", "FileOrCreate")
FILE_MODE = 0o644
TERMINATION_LOG = "/dev/termination-log"


class Volumes:
    """Makes the volumes of pods; those that stay, such as claims, are folders in `state`.

    `rewrite` returns the content of a file from the name of its volume and the content that it has in a cluster.
    """

    def __init__(
        self,
        resolver: EnvironmentResolver,
        state: Path,
        rewrite: Callable[[str, bytes], bytes] = lambda _volume, content: content,
    ) -> None:
        self._resolver = resolver
        self._state = state
        self._rewrite = rewrite

    def make(self, facts: PodFacts, folder: Path) -> dict[str, Path]:
        """Make the volumes of a pod, in `folder` those that end with it; return them by name. Raises `ConfigError`."""
        namespace = facts.pod["metadata"]["namespace"]
        found = {}
        for volume in facts.pod["spec"].get("volumes") or ():
            own = folder / volume["name"]
            if claim := volume.get("persistentVolumeClaim"):
                own = self._state / "claims" / namespace / claim["claimName"]
                own.mkdir(parents=True, exist_ok=True)
            elif host := volume.get("hostPath"):
                own = self._host_path(host)
            else:
                self._fill(volume, own, facts)
            found[volume["name"]] = own
        return found

    def refresh(self, facts: PodFacts, folder: Path) -> None:
        """Write the ConfigMaps of a pod again, as the kubelet does after one has changed."""
        for volume in facts.pod["spec"].get("volumes") or ():
            if "configMap" in volume and (folder / volume["name"]).is_dir():
                self._fill(volume, folder / volume["name"], facts)

    def _host_path(self, wanted: Document) -> Path:
        path = stand_in(wanted, self._state) if belongs_to_another(wanted) else Path(wanted["path"])
        try:
            if wanted.get("type") in CREATED and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.mkdir(exist_ok=True) if wanted["type"] == DIRECTORY else path.touch()
            if path.exists():
                return path
        except OSError as error:
            raise ConfigError(f"hostPath {path} cannot be used on this machine: {error.strerror}") from error
        raise ConfigError(f"hostPath {path} does not exist on this machine")

    def _fill(self, volume: Document, folder: Path, facts: PodFacts) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        sources = (volume.get("projected") or {}).get("sources") or (volume,)
        for source in sources:
            for path, content, mode in self._files(source, facts):
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self._rewrite(volume["name"], content))
                target.chmod(mode)

    def _files(self, source: Document, facts: PodFacts) -> Iterator[tuple[str, bytes, int]]:
        """Yield path, content and mode of each file of a ConfigMap, a Secret or the downward API."""
        namespace = facts.pod["metadata"]["namespace"]
        for field, kind in (("configMap", CONFIG_MAP), ("secret", SECRET)):
            wanted = source.get(field)
            if wanted is not None:
                name = wanted.get("name") or wanted.get("secretName")
                data = self._resolver.data(kind, namespace, name)
                if data is None and not wanted.get("optional"):
                    raise ConfigError(f'{kind.lower()} "{name}" not found')
                yield from _items(wanted, data or {}, f"{kind.lower()} {name}")
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            yield item["path"], self._downward(item, facts).encode(), int(item.get("mode") or FILE_MODE)

    def _downward(self, item: Document, facts: PodFacts) -> str:
        if "fieldRef" in item:
            return facts.field(item["fieldRef"]["fieldPath"])
        wanted = item["resourceFieldRef"]
        containers = {found["name"]: found for found in facts.pod["spec"]["containers"]}
        return resource(containers[wanted["containerName"]], wanted["resource"])


def _items(wanted: Document, data: Mapping[str, bytes], what: str) -> Iterator[tuple[str, bytes, int]]:
    default = int(wanted.get("defaultMode") or FILE_MODE)
    if not wanted.get("items"):
        yield from ((key, content, default) for key, content in data.items())
        return
    for item in wanted["items"]:
        if item["key"] in data:
            yield item["path"], data[item["key"]], int(item.get("mode") or default)
        elif not wanted.get("optional"):
            raise ConfigError(f"{what} references non-existent key: {item['key']}")


def belongs_to_another(host_path: Document) -> bool:
    """Return whether a hostPath that is created on demand is another user's, in a folder of all users such as /tmp.

    That user's folder is in the way of this one's, although the job would only create one of its own.
    """
    if host_path.get("type") not in CREATED:
        return False
    path = Path(host_path["path"])
    owners: list[int] = []
    with contextlib.suppress(OSError):  # a part that does not exist, or that this user cannot see
        for folder in reversed((path, *path.parents)):
            if owners or folder.parent.stat().st_mode & stat.S_ISVTX:
                owners.append(folder.lstat().st_uid)
    return any(owner != os.geteuid() for owner in owners)


def stand_in(host_path: Document, state: Path) -> Path:
    """Return the folder or file of this user that stands for a hostPath of another user."""
    return state / "host-paths" / str(host_path["path"]).strip("/")


def cannot_create(host_path: Document) -> bool:
    """Return whether a hostPath would have to be created where this user must not create anything."""
    if host_path.get("type") not in CREATED or belongs_to_another(host_path):
        return False
    path = Path(host_path["path"])
    if os.path.lexists(path):
        return False
    nearest = next(folder for folder in path.parents if os.access(folder, os.F_OK))
    return not os.access(nearest, os.W_OK | os.X_OK)


def mounts(container: Document, volumes: Mapping[str, Path], env: Mapping[str, str]) -> Iterator[Mount]:
    """Yield the mounts of a container."""
    for mount in container.get("volumeMounts") or ():
        source = volumes[mount["name"]]
        if below := mount.get("subPath") or expand(mount.get("subPathExpr") or "", env):
            source = source / below
            if not source.exists():
                source.mkdir(parents=True)
        yield Mount(source, mount["mountPath"].rstrip("/") or "/", read_only=bool(mount.get("readOnly")))

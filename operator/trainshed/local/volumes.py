"""The volumes of a pod as folders of this machine, and where its containers mount them."""

from __future__ import annotations

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
FILE_MODE = 0o644
TERMINATION_LOG = "/dev/termination-log"


class Volumes:
    """Makes the volumes of pods; claims are folders in `claims`, which stay.

    `rewrite` returns the content of a file from the name of its volume and the content that it has in a cluster.
    """

    def __init__(
        self,
        resolver: EnvironmentResolver,
        claims: Path,
        rewrite: Callable[[str, bytes], bytes] = lambda _volume, content: content,
    ) -> None:
        self._resolver = resolver
        self._claims = claims
        self._rewrite = rewrite

    def make(self, facts: PodFacts, folder: Path) -> dict[str, Path]:
        """Make the volumes of a pod, in `folder` those that end with it; return them by name. Raises `ConfigError`."""
        namespace = facts.pod["metadata"]["namespace"]
        found = {}
        for volume in facts.pod["spec"].get("volumes") or ():
            own = folder / volume["name"]
            if claim := volume.get("persistentVolumeClaim"):
                own = self._claims / namespace / claim["claimName"]
                own.mkdir(parents=True, exist_ok=True)
            elif host := volume.get("hostPath"):
                own = _host_path(host)
            else:
                self._fill(volume, own, facts)
            found[volume["name"]] = own
        return found

    def refresh(self, facts: PodFacts, folder: Path) -> None:
        """Write the ConfigMaps of a pod again, as the kubelet does after one has changed."""
        for volume in facts.pod["spec"].get("volumes") or ():
            if "configMap" in volume and (folder / volume["name"]).is_dir():
                self._fill(volume, folder / volume["name"], facts)

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


def _host_path(wanted: Document) -> Path:
    path, kind = Path(wanted["path"]), wanted.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch()
    if not path.exists():
        raise ConfigError(f"hostPath {path} does not exist on this machine")
    return path


def mounts(container: Document, volumes: Mapping[str, Path], env: Mapping[str, str]) -> Iterator[Mount]:
    """Yield the mounts of a container."""
    for mount in container.get("volumeMounts") or ():
        source = volumes[mount["name"]]
        if below := mount.get("subPath") or expand(mount.get("subPathExpr") or "", env):
            source = source / below
            if not source.exists():
                source.mkdir(parents=True)
        yield Mount(source, mount["mountPath"].rstrip("/") or "/", read_only=bool(mount.get("readOnly")))

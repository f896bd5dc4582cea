"""The volumes of a pod as folders of this machine, and where its containers mount them.

How a mount becomes a path is decided here alone: a `Mount` has the path of this machine and that of the container, and
others ask. A runtime only carries it out, by a mount of Linux, an option of docker, or the one path in place of the
other. It adds none but its /etc/hosts.

Names and paths were checked before (`validation`), but claims outlive their runs, and a container may change what is
in a volume while it runs: so each path is also resolved below its root (`paths`) when it is written or mounted.

Modes: the folder above all volumes is private (0700), so they are for the replicas alone. Replicas that are processes
have the user's id: their Secrets have the mode 0600 unless the pod sets another, and folders 0700. The user of an image
is not known: there they have the modes of a kubelet, 0644 for files, and all can write to an emptyDir and a new claim.
A folder that is made for a subPath has the mode of its volume, as of a kubelet; where replicas have the user's id,
no other user can write in it if the volume is a folder of all users, such as /tmp.
"""

from __future__ import annotations

import errno
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainshed.api.job import Document
from trainshed.local.names import descending, quoted, writable
from trainshed.local.paths import Creation, create, opened, resolve, write
from trainshed.local.runtimes.protocol import Mount
from trainshed.local.state_folder import CLAIMS
from trainshed.local.stored_objects import CONFIG_MAP, SECRET

from .environment import ConfigError, EnvironmentResolver, PodFacts, expand, references
from .host_paths import CREATED, FILE, belongs_to_another, check_owners, stand_in, stand_in_path, wrong_type

#: The sources of volumes that can be had on this machine.
SOURCES = (
    *("configMap", "downwardAPI", "emptyDir", "ephemeral", "hostPath", "persistentVolumeClaim", "projected", "secret"),
)
#: The sources that a kubelet writes; containers cannot change them.
WRITTEN = ("configMap", "downwardAPI", "projected", "secret")
#: The modes of a kubelet for what it makes: files of volumes, and what is missing of a hostPath.
FILE_MODE, FOLDER_MODE = 0o644, 0o755
TERMINATION_LOG = "/dev/termination-log"
#: Errors of the machine, not of a pod: waiting for a change of the pod's objects does not help.
FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE)


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes of what a run creates: folders with files, folders to write to, claims, and Secrets by default.

    `public` are the permissions of a folder that is made for a subPath in a volume in which every user can write.
    """

    folder: int
    writable: int
    claim: int
    secret: int
    public: int


#: Modes for replicas that have the user's own id, and for those that may have any.
OWN_USER = Modes(0o700, 0o700, 0o755, 0o600, 0o755)
ANY_USER = Modes(0o755, 0o777, 0o777, FILE_MODE, 0o7777)


@dataclass(frozen=True, slots=True)
class Volume:
    """A folder or file of this machine; whether containers can only read it; `public` is as in `Modes`.

    `host` is whether it is a path that the job names, which other users may reach.
    """

    path: Path
    read_only: bool = False
    public: int = ANY_USER.public
    host: bool = False


@dataclass(frozen=True, slots=True)
class VolumeFile:
    """A file that a volume gets."""

    path: str
    content: bytes
    mode: int


def no_token(_pod: Document, _audience: str) -> str:
    """Return nothing: pods have no tokens."""
    return ""


class Volumes:
    """Makes the volumes of pods; those that stay, such as claims, are folders in `state`.

    `rewrite` returns the content of a file from the name of its volume and the content that it has in a cluster,
    `token` the token of a pod for an audience, empty if there is none.
    """

    def __init__(
        self,
        resolver: EnvironmentResolver,
        state: Path,
        rewrite: Callable[[str, bytes], bytes] = lambda _volume, content: content,
        modes: Modes = OWN_USER,
        token: Callable[[Document, str], str] = no_token,
    ) -> None:
        self._resolver = resolver
        self._state = state
        self._rewrite = rewrite
        self._modes = modes
        self._token = token

    def make(self, facts: PodFacts, folder: Path) -> dict[str, Volume]:
        """Make the volumes of a pod, in `folder` those that end with it; return them by name.

        Raises `ConfigError`, and OSError if the machine is at fault.
        """
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = {}
        for volume in facts.pod["spec"].get("volumes") or ():
            with _explained(volume["name"]):
                found[volume["name"]] = self._made(volume, folder, facts)
        return found

    def refresh(self, facts: PodFacts, folder: Path) -> None:
        """Write the ConfigMaps of a pod again, as the kubelet does after one has changed. Raises as `make`."""
        for volume in facts.pod["spec"].get("volumes") or ():
            if volume.get("configMap") is not None and (folder / volume["name"]).is_dir():
                with _explained(volume["name"]):
                    self._fill(volume, folder, facts)

    def _made(self, volume: Document, folder: Path, facts: PodFacts) -> Volume:
        if claim := volume.get("persistentVolumeClaim"):
            self._state.mkdir(parents=True, exist_ok=True, mode=0o700)
            own = resolve(self._state, claim_path(facts.pod, claim), Creation(self._modes.claim))
            return Volume(own, read_only=bool(claim.get("readOnly")), public=self._modes.public)
        if host := volume.get("hostPath"):
            path = self._host_path(host)
            return Volume(path, public=self._modes.public, host=path == Path(host["path"]))
        return Volume(self._fill(volume, folder, facts), read_only=_is_written(volume), public=self._modes.public)

    def _host_path(self, wanted: Document) -> Path:
        path, kind = Path(wanted["path"]), str(wanted.get("type") or "")
        if not belongs_to_another(wanted):
            try:
                if kind in CREATED and not path.exists():
                    create(path, Creation(FOLDER_MODE, FILE_MODE if kind == FILE else None))
                if not path.exists():
                    raise ConfigError(f"hostPath {path} does not exist on this machine")
            except OSError as error:
                raise ConfigError(f"hostPath {path} cannot be used on this machine: {error.strerror}") from error
        if belongs_to_another(wanted):  # also if that user was quicker
            creation = Creation(self._modes.claim, 0o666 if kind == FILE else None)
            self._state.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = resolve(self._state, stand_in_path(wanted), creation)
        if problem := wrong_type(path, kind):
            raise ConfigError(problem)
        return path

    def _fill(self, volume: Document, folder: Path, facts: PodFacts) -> Path:
        """Make the folder of a volume with its files; return it."""
        files = {
            posixpath.normpath(file.path): file
            for source in _sources(volume)
            for file in self._files(source, facts, volume.get("projected") or {})
        }
        if inside := [
            path for path in files if path == "." or any(str(above) in files for above in Path(path).parents)
        ]:
            raise ConfigError(f"the path {quoted(inside[0])} is below a file, or is no file")
        mode = self._modes.folder if _is_written(volume) else self._modes.writable
        own = resolve(folder, volume["name"], Creation(mode))
        with opened(folder) as root:  # so that nothing is written in what a container has mounted at the volume
            for path, file in files.items():
                content = self._rewrite(volume["name"], file.content)
                write(root, f"{volume['name']}/{path}", content, Creation(self._modes.folder, file.mode))
        return own

    def _files(self, source: Document, facts: PodFacts, projected: Document) -> Iterator[VolumeFile]:
        """Yield the files of a ConfigMap, Secret, token or the downward API, perhaps parts of a projected volume."""
        namespace = facts.pod["metadata"]["namespace"]
        for field, kind, mode in (("configMap", CONFIG_MAP, FILE_MODE), ("secret", SECRET, self._modes.secret)):
            wanted = source.get(field)
            if wanted is not None:
                name = wanted.get("name") or wanted.get("secretName")
                data = self._resolver.data(kind, namespace, name)
                if data is None and not wanted.get("optional"):
                    raise ConfigError(f'{kind.lower()} "{name}" not found')
                default = _first(wanted.get("defaultMode"), projected.get("defaultMode"), mode)
                yield from _items(wanted, data or {}, f"{kind.lower()} {name}", default)
        wanted = source.get("serviceAccountToken") or {}
        if token := self._token(facts.pod, str(wanted.get("audience", ""))) if wanted else "":
            yield VolumeFile(wanted["path"], token.encode(), _first(projected.get("defaultMode"), self._modes.secret))
        wanted = source.get("downwardAPI") or {}
        default = _first(wanted.get("defaultMode"), projected.get("defaultMode"), FILE_MODE)
        for item in wanted.get("items") or ():
            yield VolumeFile(item["path"], self._downward(item, facts).encode(), _first(item.get("mode"), default))

    def _downward(self, item: Document, facts: PodFacts) -> str:
        if item.get("fieldRef"):
            return facts.field(item["fieldRef"]["fieldPath"])
        return facts.resource(item["resourceFieldRef"])


def _items(wanted: Document, data: Mapping[str, bytes], what: str, default: int) -> Iterator[VolumeFile]:
    if not wanted.get("items"):
        yield from (VolumeFile(key, content, default) for key, content in data.items())
        return
    for item in wanted["items"]:
        if item["key"] in data:
            yield VolumeFile(item["path"], data[item["key"]], _first(item.get("mode"), default))
        elif not wanted.get("optional"):
            raise ConfigError(f"{what} references non-existent key: {item['key']}")


def _sources(volume: Document) -> tuple[Document, ...]:
    """Return where the files of a volume come from."""
    if volume.get("projected") is None:
        return (volume,)
    return tuple(source for source in volume["projected"].get("sources") or () if source)


def _is_written(volume: Document) -> bool:
    return any(volume.get(kind) is not None for kind in WRITTEN)


def _first(*modes: int | None) -> int:
    """Return the first mode that is set; there is one."""
    return next(mode for mode in modes if mode is not None)


@contextmanager
def _explained(volume: str) -> Iterator[None]:
    """Make errors of the paths of a volume those of its pod."""
    try:
        yield
    except OSError as error:
        if error.errno in FAULTS:
            raise
        raise ConfigError(f'volume "{volume}": {error.filename or ""}: {error.strerror}') from error


def claim_path(pod: Document, claim: Document) -> str:
    """Return where a claim is in the folder with all that stays."""
    return f"{CLAIMS}/{pod['metadata']['namespace']}/{claim['claimName']}"


def misleading(pods: Iterable[Document], state: Path) -> list[str]:
    """Return the claims, and the parts of claims and host paths, that links now lead out of their volumes.

    Containers of earlier runs can have made such links. Also the parts of host paths that another user has put there. A
    pod that mounts one would wait without end.
    """
    return list(dict.fromkeys(problem for pod in pods for problem in _misleading(pod, state)))


def _misleading(pod: Document, state: Path) -> Iterator[str]:
    spec = pod["spec"]
    roots: dict[str, Path] = {}
    reachable: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        if host := volume.get("hostPath"):
            foreign = belongs_to_another(host)
            roots[volume["name"]] = stand_in(host, state) if foreign else Path(host["path"])
            if not foreign:
                reachable.add(volume["name"])
        elif claim := volume.get("persistentVolumeClaim"):
            path = claim_path(pod, claim)
            roots[volume["name"]] = state / path
            where = f"spec.volumes[{index}].persistentVolumeClaim.claimName"
            if problem := _problem(state, path, links=False):
                yield f"{where}: Invalid value: {quoted(claim['claimName'])}: {state / path} {problem}"
    containers = [
        (f"spec.{part}[{index}]", container)
        for part in ("initContainers", "containers")
        for index, container in enumerate(spec.get(part) or ())
    ]
    for where, container in containers:
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            root, below = roots.get(mount["name"]), mount.get("subPath")
            host = mount["name"] in reachable
            if root and below and (problem := _problem(root, below, links=True, host=host)):
                yield f"{where}.volumeMounts[{index}].subPath: Invalid value: {quoted(below)}: {problem}"


def _problem(root: Path, path: str, *, links: bool, host: bool = False) -> str:
    """Return why a path below a root, which `host` says is a hostPath, cannot be mounted.

    What does not exist will be created.
    """
    try:
        if host:
            check_owners(root, path)
        resolve(root, path, links=links)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""


def mounts(container: Document, volumes: Mapping[str, Volume], env: Mapping[str, str]) -> Iterator[Mount]:
    """Yield the mounts of a container; raises `ConfigError`, and OSError if the machine is at fault.

    A source has no links in it when it is returned. Containers of docker and podman are mounted by another program, to
    which its path is given, so a container that can write to the folders above it and runs at the same time could put
    a link in its place before that program looks.
    """
    for mount in container.get("volumeMounts") or ():
        volume, source = volumes[mount["name"]], volumes[mount["name"]].path
        if below := mount.get("subPath") or _expanded(mount.get("subPathExpr") or "", env):
            where = f'volumeMount "{mount["name"]}" of container "{container["name"]}"'
            try:
                source = _below(volume, below)
            except OSError as error:
                if error.errno in FAULTS:
                    raise
                raise ConfigError(f"failed to prepare subPath for {where}: {below}: {error.strerror}") from error
        yield Mount(source, absolute(mount["mountPath"]), read_only=volume.read_only or bool(mount.get("readOnly")))


def _below(volume: Volume, path: str) -> Path:
    """Return what is at a path below a volume, made if it is missing; raises OSError."""
    if volume.host:
        check_owners(volume.path, path)
    mode = stat.S_IMODE(volume.path.stat().st_mode)
    made = Creation(mode & volume.public if mode & stat.S_IWOTH else mode)
    source = resolve(volume.path, path, made, links=True)
    if volume.host:
        check_owners(volume.path, path)  # again: that user may have been quicker
    return source


def termination_log(container: Document, log: Path) -> Mount:
    """Return the mount of the file that becomes the termination message of a container."""
    return Mount(log, absolute(container.get("terminationMessagePath") or TERMINATION_LOG))


def absolute(target: str) -> str:
    """Return the path in a container that a mount has, without steps out of its root."""
    return posixpath.normpath("/" + target.lstrip("/"))


def _expanded(text: str, env: Mapping[str, str]) -> str:
    """Return a subPathExpr with the values of variables; raises `ConfigError`, as the kubelet does."""
    if missing := sorted({name for name in references(text) if not env.get(name)}):
        raise ConfigError(f"missing value for {', '.join(missing)}")
    below = expand(text, env)
    if problems := (*descending(below), *writable(below)):
        raise ConfigError(f"unable to provision SubPath `{below}`: {problems[0]}")
    return below

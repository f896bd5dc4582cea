"""What stands for mounts where there are none: paths of this machine in the words and variables of a replica."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainshed.local.mounts import mounts_below
from trainshed.local.state_folder import Unusable, parents

from .protocol import ContainerSpec, SandboxSpec

#: Paths that mean one path everywhere: in words of a shell without quotes, and in lists of paths.
PLAIN = re.compile(r"[\w@%+=./-]+", re.ASCII)
#: The folder for temporary files of all users.
COMMON = Path("/tmp")  # noqa: S108 # nosec B108


@dataclass(slots=True)
class ReplacedPaths:
    """The paths of this machine that replicas have in place of those at which a volume is mounted.

    `links` is where to note a folder of links that the run makes, for the next run if this one is killed.
    """

    links: Path
    _paths: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    _plain: dict[str, str] = field(default_factory=dict)

    def of(self, pod: SandboxSpec, spec: ContainerSpec) -> dict[str, str]:
        """Return the paths of a container by those of its mounts; raises OSError and `Unusable`.

        The launcher of an MPIJob has those of its workers too, whose ranks it starts.
        """
        sources = {mount.target: str(mount.source) for mount in spec.mounts if mount.target != str(mount.source)}
        own = {target: self._plain_path(source) for target, source in sources.items()}
        self._paths.setdefault(pod.job, {}).setdefault(pod.name, {}).update(own)
        if pod.name != f"{pod.job}-launcher":
            return own
        others = {target: source for paths in self._paths[pod.job].values() for target, source in paths.items()}
        return others | own

    def close(self) -> None:
        """Remove the links."""
        remove_links(self.links)

    def _plain_path(self, path: str) -> str:
        """Return a path, or that of a link to it where scripts that do not quote it would take it for several words.

        With a space in it, `rm -rf /data/old` could remove another folder.
        """
        if PLAIN.fullmatch(path):
            return path
        if path not in self._plain:
            if not self.links.is_symlink():
                self.links.symlink_to(tempfile.mkdtemp(prefix="trainshed-", dir=_temporary()))
            link = self.links.readlink() / str(len(self._plain))
            link.symlink_to(path)
            self._plain[path] = str(link)
        return self._plain[path]


def _temporary() -> str:
    """Return the folder for temporary files: TMPDIR, or /tmp if another user could replace what is in TMPDIR.

    TMPDIR can be left from the user who has called `su` or `sudo`. Raises OSError, and `Unusable` for /tmp.
    """
    with contextlib.suppress(OSError, Unusable):
        chosen = Path(tempfile.gettempdir()).resolve(strict=True)
        if PLAIN.fullmatch(str(chosen)) and not any(parents(chosen)):
            return str(chosen)
    list(parents(COMMON.resolve()))
    return str(COMMON)


def remove_links(note: Path) -> None:
    """Remove the folder of links to which a link leads, and nothing but links in it.

    Another user may have put a folder, or a link to one, in its place if a program that cleans /tmp has removed it.
    """
    with contextlib.suppress(OSError):
        folder = note.readlink()
        with _opened(folder) as descriptor:
            if os.fstat(descriptor).st_uid != os.geteuid() or mounts_below(folder):
                return
            with os.scandir(descriptor) as entries:
                names = [entry.name for entry in entries if entry.is_symlink()]
            for name in names:
                os.unlink(name, dir_fd=descriptor)
        folder.rmdir()


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def with_paths(text: str, paths: Mapping[str, str]) -> str:
    """Return the text with the folder of this machine in place of each path at which it is mounted."""
    if not paths:
        return text
    known = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    pattern = rf"(?<![\w./-])({known})(?=/|$|[\s:;,'\"])"
    return re.sub(pattern, lambda found: paths[found[1]].rstrip(os.sep), text)

"""What killed runs have left with an engine, and the files of their containers' users.

Containers belong to the run that their label names, never to the one that their name seems to say: a job may have any
name. Those of runs that have surely ended are removed. Of runs about which nothing is known here, the engine removes
what does not run, and the user reads the rest: the folder was removed, or is another machine's that has a copy of it.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from trainshed.local.mounts import mounts_below
from trainshed.local.paths import remove

from .docker_cli import DockerCli
from .protocol import Run, StartFailed

#: The labels of containers and networks: the run, and the mark of the folder that has all runs of this user.
RUN_LABEL, RUNS_LABEL = "trainshed.run", "trainshed.runs"
#: What the names of networks begin with; the id of the run follows.
NETWORK = "trainshed-"
#: How docker and podman show the run of a container; only newer versions of podman can list labels one by one.
RUN_OF = f'{{{{.Name}}}} {{{{index .Config.Labels "{RUN_LABEL}"}}}}'


class Leftovers:
    """What killed runs have left; `say` prints a line."""

    def __init__(self, cli: DockerCli, run: Run, say: Callable[[str], None]) -> None:
        self._cli = cli
        self._run = run
        self._say = say

    async def remove(self) -> None:
        """Remove the containers and networks of runs that were killed together with their reapers.

        Raises `StartFailed` if the engine does not list them.
        """
        own = ("--filter", f"label={RUNS_LABEL}={self._run.known}")
        containers = await self._cli.run("ps", "--all", *own, "--format", "{{.Names}}")
        networks = await self._cli.run("network", "ls", *own, "--format", "{{.Name}}")
        runs = await self._runs(containers.split())
        if over := [name for name, run in runs.items() if self._run.is_over(run)]:
            await self._try("rm", "--force", "--volumes", *over)
        unknown = [name for name, run in runs.items() if self._run.is_over(run) is None]
        if left := [name for name in unknown if not await self._try("rm", "--volumes", name)]:
            self._say(
                f"note: containers of runs that are not known here are left: {len(left)}, such as {left[0]}; if no run"
                f" needs it: {self._cli.program} rm --force {left[0]}"
            )
        for name in networks.split():
            if self._run.is_over(name.removeprefix(NETWORK)) is not False:
                await self._try("network", "rm", name)  # the engine keeps one that is in use

    async def empty(self, images: Iterable[str], words: Callable[[Path], list[str]]) -> None:
        """Let a container remove the volumes that this user cannot, as the files are those of containers' users.

        `words` are the options of a container that has a folder at /folder.
        """
        for folder in self._run.stuck:
            for image in images:
                if not _is_folder(folder) or mounts_below(folder):
                    break  # the engine mounts with a folder what is mounted in it
                paths = [f"/folder/{path.name}" for path in folder.iterdir()]
                run = ("run", "--rm", "--pull", "never", "--network", "none", "--user", "0", *words(folder))
                await self._try(*run, "--entrypoint", "rm", image, "-rf", *paths)
                remove(folder)

    async def _runs(self, containers: list[str]) -> dict[str, str]:
        """Return the runs of containers by the containers' names."""
        if not containers:
            return {}
        try:
            lines = await self._cli.run("inspect", "--type", "container", "--format", RUN_OF, *containers)
        except StartFailed:  # one was removed meanwhile; then there is no answer for the others either
            if len(containers) == 1:
                return {}
            return {name: run for one in containers for name, run in (await self._runs([one])).items()}
        found = (line.removeprefix("/").partition(" ") for line in lines.splitlines())
        return {name: run for name, _, run in found}

    async def _try(self, *words: str) -> bool:
        """Run a command; return whether it has done what it should."""
        try:
            await self._cli.run(*words)
        except StartFailed:
            return False
        return True


def _is_folder(path: Path) -> bool:
    """Return whether this is a folder, and no link to one, in which a container could remove what is the user's."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False

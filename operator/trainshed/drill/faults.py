"""The faults of a drill, and scripts of them in YAML, in which everything that is not known is an error."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from trainshed.api.foreign_text import one_line
from trainshed.manifests.nodes import BadManifest
from trainshed.manifests.reader import documents, text

#: The most bytes and the most faults of a script, and the fewest steps of a training.
LARGEST, MOST, FEWEST = 64 << 10, 50, 6
#: The characters of a problem that are shown.
SHOWN = 300
WHERE = re.compile(r" - at `\$\.?([^`]*)`$")

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=253)]


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="fault", rename="camel"):
    """A fault. Without a step it comes in the middle of the training, after the first checkpoint.

    `most_lost_steps` is how many steps may be lost; without it any number that is not all of them.
    """

    at_step: Number | None = None
    most_lost_steps: Number | None = None

    def effect(self, who: str, target: str) -> str:  # noqa: ARG002 - of one fault
        """Return what has happened to these replicas, with the file that was being written if that is known."""
        return f"{who} {'were' if ',' in who else 'was'} killed"

    @property
    def name(self) -> str:
        """Its name in scripts."""
        return str(self.__struct_config__.tag)


class OfReplica(Fault, frozen=True):
    """A fault of one replica, such as worker-0; without a name of the last one that does not lead."""

    replica: Name = ""


class KillRank(OfReplica, frozen=True, tag="kill-rank"):
    """Kills the processes of a replica, as a crash would."""


class KillAll(Fault, frozen=True, tag="kill-all"):
    """Kills the processes of all replicas at once."""


class Evict(OfReplica, frozen=True, tag="evict"):
    """Evicts a replica: SIGTERM, and SIGKILL when its grace period is over."""

    def effect(self, who: str, target: str) -> str:  # noqa: ARG002, D102
        return f"{who} was evicted"


class LoseNode(OfReplica, frozen=True, tag="lose-node"):
    """Ends a replica and removes its pod without notice, as the loss of its node does."""

    def effect(self, who: str, target: str) -> str:  # noqa: ARG002, D102
        return f"{who} was lost with its node"


class OutOfMemory(OfReplica, frozen=True, tag="oom"):
    """Kills a replica as Linux does when its memory is used up: exit code 137, reason OOMKilled."""

    def effect(self, who: str, target: str) -> str:  # noqa: ARG002, D102
        return f"{who} was killed for want of memory"


class Suspend(Fault, frozen=True, tag="suspend"):
    """Suspends the job, so that all replicas get SIGTERM and their grace period, and resumes it."""

    def effect(self, who: str, target: str) -> str:  # noqa: ARG002, D102
        return "the job was suspended, and resumed"


class Stall(OfReplica, frozen=True, tag="stall"):
    """Stops the processes of a replica for some seconds (SIGSTOP, SIGCONT)."""

    seconds: Annotated[float, msgspec.Meta(ge=0.1, le=3600)] = 10.0

    def effect(self, who: str, target: str) -> str:  # noqa: ARG002, D102
        return f"{who} stood still for {self.seconds:g} s"


class Resize(Fault, frozen=True, tag="resize"):
    """Suspends the job, and resumes it with another number of workers: one less, or one more if there is only one."""

    replicas: Annotated[int, msgspec.Meta(ge=1, le=2000)] | None = None

    def effect(self, who: str, target: str) -> str:  # noqa: ARG002, D102
        return f"the job was suspended, and resumed with {who}"


class KillInWrite(Fault, frozen=True, tag="kill-in-write"):
    """Kills all replicas while one of them writes a checkpoint."""

    def effect(self, who: str, target: str) -> str:  # noqa: ARG002, D102
        return f"all replicas were killed while {target} was being written"


AnyFault: TypeAlias = KillRank | KillAll | Evict | LoseNode | OutOfMemory | Suspend | Stall | Resize | KillInWrite
#: The built-in scripts, and their names with what each fault does.
FULL: tuple[AnyFault, ...] = (
    *(KillRank(), KillAll(), Evict(), LoseNode(), OutOfMemory()),
    *(Suspend(), Stall(), Resize(), KillInWrite()),
)
QUICK: tuple[AnyFault, ...] = (KillRank(), Suspend(), Resize(), KillInWrite())
NAMES = tuple(fault.name for fault in FULL)


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a drill does, one fault after another, each in a run of its own."""

    faults: Annotated[tuple[AnyFault, ...], msgspec.Meta(min_length=1, max_length=MOST)]


class BadScript(Exception):
    """A script cannot be used. The message says where and why."""


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe has perhaps no writer


def read(path: Path) -> Script:
    """Return the script in a file; raises `BadScript`."""
    try:
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BadScript(f"{path}: is no file")  # a pipe or a device might never end
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise BadScript(f"{path}: has more than {LARGEST >> 10} KiB")
        found = [document.value for document in documents(text(content))]
    except OSError as error:
        raise BadScript(f"cannot read {path}: {error.strerror}") from error
    except BadManifest as error:
        raise BadScript(f"{path}: {error}") from error
    if len(found) != 1:
        raise BadScript(f"{path}: has {len(found)} documents; a script is one, with a list `faults`")
    try:
        return msgspec.convert(found[0], Script)
    except msgspec.ValidationError as error:
        raise BadScript(f"{path}: {_explained(str(error))}") from error


def _explained(problem: str) -> str:
    """Return what msgspec says with the place first, and the names of faults if one is not known."""
    where = WHERE.search(problem)
    said = one_line(problem[: where.start()] if where else problem, SHOWN)
    names = f"; known faults are {', '.join(NAMES)}" if where and where[1].endswith(".fault") else ""
    return f"{where[1]}: {said}{names}" if where and where[1] else f"{said}{names}"

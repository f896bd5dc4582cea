"""Where a file is: what no copy of it has, whether it was copied, restored from a backup, or put into an image."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from .mounts import MOUNTS, mount_of

#: What differs between two starts of a machine, and between machines, also if one is a copy of the other.
BOOT = Path("/proc/sys/kernel/random/boot_id")
#: File systems that no second machine has at the same time.
LOCAL = frozenset(("bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"))
TEXT = re.compile(r"(\S+) (\d+) (\d+)")


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder, as one start of one machine knows it: `boot` is that start, - where it is not known.

    A file that is open keeps its place: as long as it is, no other file of this start has the same.
    """

    boot: str
    device: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """Return the place of a file."""
        return cls(boot(), found.st_dev, found.st_ino)

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Return the place that a text is of, None if it is of none."""
        found = TEXT.fullmatch(text)
        return cls(found[1], int(found[2]), int(found[3])) if found else None

    def __str__(self) -> str:
        """Return the place as a text."""
        return f"{self.boot} {self.device} {self.inode}"

    def may_be_before_start(self, now: Place) -> bool:
        """Return whether this may be the place `now` before the machine was started again.

        Numbers of devices change then; another machine that has the same file looks the same.
        """
        return self.boot != now.boot and self.inode == now.inode


def boot() -> str:
    """Return what this start of the machine has and no other, - if the system does not say that."""
    try:
        return BOOT.read_text().strip() or "-"
    except OSError:
        return "-"


def is_local(descriptor: int) -> bool:
    """Return whether an open file is surely in a file system that no other machine has at the same time."""
    try:
        mounts = MOUNTS.read_text().splitlines()
    except (OSError, ValueError):
        return False
    wanted = mount_of(descriptor)
    found = next((line for line in mounts if line.split(" ", 1)[0] == wanted), "")
    return found.rpartition(" - ")[2].partition(" ")[0] in LOCAL

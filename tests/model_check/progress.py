"""What earlier searches of a world have finished, so that a long one may be broken off and gone on with."""

from __future__ import annotations

import shutil
from hashlib import blake2b
from pathlib import Path

from testbed.places import ROOT

from .scenarios import Scenario
from .seen import Seen

#: What decides what a world does. Whoever changes any of it begins anew.
SOURCES = ("operator/trainshed", "tests/support/audit", "tests/model_check", "tests/simulation")


class Progress:
    """That of one world: `finished` are the states from which all was searched, `diary` is what was noted meanwhile."""

    def __init__(self, scenario: Scenario, home: Path) -> None:
        self._home = home / blake2b(repr(scenario).encode(), digest_size=8).hexdigest()
        self._folder = self._home / _version()
        for other in self._home.glob("*"):
            if other != self._folder:
                shutil.rmtree(other)
        self._folder.mkdir(parents=True, exist_ok=True)
        self.diary = self._folder / "diary"
        self.diary.touch()
        self.finished = Seen(file=self._folder / "finished")

    def forget(self) -> None:
        """Leave nothing: all is found, or nobody goes on with it."""
        shutil.rmtree(self._home)


def _version() -> str:
    """All sources in a word, without tests."""
    found = blake2b(digest_size=8)
    for source in SOURCES:
        for file in sorted((ROOT / source).rglob("*.py")):
            found.update(b"" if file.name.startswith("test_") else file.read_bytes())
    return found.hexdigest()

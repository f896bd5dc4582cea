"""The suites in the order in which they are tried on a bug: the quickest first, each looking in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .bugs import Bug

#: Where the tests are that look at a part of the repository most closely.
NEAREST = {
    "operator/trainshed/api": ("tests/unit/api", "hack/test_generate_manifests.py"),
    "operator/trainshed/frameworks": ("tests/unit/frameworks", "tests/unit/plan"),
    "operator/trainshed/plan": ("tests/unit/plan",),
    "operator/trainshed/client": ("tests/unit/client",),
    "operator/trainshed/controller": ("tests/unit/controller",),
    "operator/trainshed/cli": ("tests/unit/cli",),
    "operator/trainshed/config.py": ("tests/unit/test_config.py", "tests/unit/cli"),
    "operator/trainshed/crd.py": ("tests/unit/api", "hack/test_generate_manifests.py"),
    "operator/trainshed/runtime.py": ("tests/unit/controller",),
    "manifests": ("hack/test_generate_manifests.py",),
}
SERVER = ("tests/unit/client", "tests/integration")


#: Random schedules are played up to this seed: on one of them a bug that can be noticed at all mostly is.
SEEDS = 150
FLAGS = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", "-rfE", "--hypothesis-seed=0")
#: Plugins are among the packages that a run finds imported already.
FLAGS += ("-W", "ignore::pytest.PytestAssertRewriteWarning")
FAST, ON_SERVER = "not apiserver and not e2e and not bench", "apiserver"


#: The arguments of a run of Python.
Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """One level: what Python is asked to run for a bug, or for none, one after the other, and in which environment."""

    number: int
    name: str
    runs: Callable[[Bug | None], tuple[Words, ...]]
    environment: dict[str, str]


def _units(bug: Bug | None) -> tuple[Words, ...]:
    """The tests that the bug hints at, then all of the rooms that it is in; those of all rooms if there is no bug."""
    rooms = dict.fromkeys(_rooms(bug) if bug else (path for paths in NEAREST.values() for path in paths))
    hinted = bug.hint if bug else ()
    return tuple((*FLAGS, "-m", FAST, *paths) for paths in (hinted, tuple(rooms)) if paths)


def _rooms(bug: Bug) -> Iterator[str]:
    for edit in bug.edits:
        for place, paths in NEAREST.items():
            if edit.file.startswith(place):
                yield from paths


def _simulation(_bug: Bug | None) -> tuple[Words, ...]:
    return (("-m", "mutants.schedules", "0", str(SEEDS)),)


def _server(bug: Bug | None) -> tuple[Words, ...]:
    """The tests on an API server that a bug hints at; if it hints at none, all that speak to one by themselves."""
    hinted = tuple(path for path in (bug.hint if bug else ()) if path.startswith(SERVER))
    return ((*FLAGS, "-m", ON_SERVER, *(hinted or SERVER)),)


LEVELS = (
    Level(1, "units", _units, {}),
    Level(2, "simulation", _simulation, {}),
    Level(3, "server", _server, {}),
)

"""The house keeps its own rules: budgets, twins, one broad except, nothing said twice, nothing left out."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import blueprint

ROOT = Path(__file__).resolve().parent.parent
OPERATOR = ROOT / "operator" / "trainshed"
TESTS = ROOT / "tests"
EXAMPLES = ROOT / "examples"

FILE_LINES = 250
#: Files that may be longer, each with its reason.
LONGER_FILES = {
    "operator/trainshed/plan/ladder.py": 300,  # the state machine is to be read in one piece
    "operator/trainshed/frameworks/pytorch.py": 320,  # everything of one kind of job stands in one file
    "operator/trainshed/frameworks/mpi_v2beta1.py": 300,  # the same
}

FUNCTION_LINES = 30
EQUAL_LINES = 6

#: Modules without a test file of their own, each with its reason.
WITHOUT_TWIN = {
    "__main__.py": "it opens the door: the rings that start the whole operator go through it",
    "__init__.py": "what a room says of itself: its modules have the tests",
}

#: Names that say nothing about what a module knows.
EMPTY_NAMES = frozenset(("utils", "util", "common", "helpers", "helper", "base", "manager", "misc", "tools"))

#: Where packages come from is the machine's business, not the repository's. In pieces: this file does not name them.
REGISTRIES = tuple(
    ".".join(labels) for labels in (("pypi", "org"), ("pythonhosted", "org"), ("proxy", "golang", "org"))
)


def files() -> tuple[Path, ...]:
    """Every file that is tracked, or would be with the next `git add`."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout: which files are ours cannot be told")
    found = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
    return tuple(sorted(path for path in found if path.is_file()))


def scripts(room: Path) -> Iterator[tuple[str, str]]:
    """The path from the root and the text of each Python file below `room`."""
    for path in files():
        if path.suffix == ".py" and room in path.parents:
            yield path.relative_to(ROOT).as_posix(), path.read_text()


def test_every_module_has_its_twin_among_the_tests() -> None:
    missing = []
    for name, source in scripts(OPERATOR):
        module = ROOT / name
        twin = TESTS / module.parent.relative_to(OPERATOR) / f"test_{module.name}"
        if module.name not in WITHOUT_TWIN and blueprint.has_functions(source) and not twin.is_file():
            missing.append(f"{name} needs {twin.relative_to(ROOT)}")
    assert missing == []


def test_no_file_is_longer_than_its_budget() -> None:
    lengths = {name: source.count("\n") for name, source in scripts(ROOT)}
    assert {name: n for name, n in lengths.items() if n > LONGER_FILES.get(name, FILE_LINES)} == {}


def test_no_function_of_the_operator_is_longer_than_its_budget() -> None:
    lengths = {
        f"{name} {function}": n
        for name, source in scripts(OPERATOR)
        for function, n in blueprint.lengths(source).items()
    }
    assert {function: n for function, n in lengths.items() if n > FUNCTION_LINES} == {}


def test_every_module_begins_with_a_sentence() -> None:
    mute = []
    for name, source in scripts(ROOT):
        first = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0]
        if not first.endswith((".", ":", "?")):
            mute.append(name)
    assert mute == []


def test_there_is_one_broad_except_in_the_operator() -> None:
    found = [f"{name}:{line}" for name, source in scripts(OPERATOR) for line in blueprint.broad_excepts(source)]
    assert [place.partition(":")[0] for place in found] == ["operator/trainshed/loop/worker.py"], found


def test_nothing_in_the_operator_is_said_twice() -> None:
    assert blueprint.repetitions(dict(scripts(OPERATOR)), EQUAL_LINES) == ()


def test_modules_are_named_for_what_they_know() -> None:
    assert [name for room in (OPERATOR, TESTS) for name, _ in scripts(room) if Path(name).stem in EMPTY_NAMES] == []


def test_the_folder_of_the_operator_is_no_package() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists(), "it would shadow Python's own `operator`"


def test_every_example_is_an_end_to_end_test() -> None:
    command = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", "e2e")
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    examples = sorted(f"{path.parent.name}/{path.stem}" for path in EXAMPLES.glob("*/*.yaml"))
    assert examples, "no examples at all"
    assert [name for name in examples if name not in collected] == [], collected


def test_nothing_in_the_repository_belongs_to_one_machine() -> None:
    # Where MPI pods have their keys is mpi-operator's word, on whoever's machine.
    home = rf"{re.escape(f'{Path.home()}/')}(?!\.ssh\b)"
    places = "|".join((re.escape(str(ROOT)), home, r"/(?:home|Users)/\w"))
    private = re.compile(rf"(?<![\w.}})])(?:{places})|{'|'.join(map(re.escape, REGISTRIES))}")
    found = {path.relative_to(ROOT).as_posix(): private.findall(path.read_text(errors="replace")) for path in files()}
    assert {name: words for name, words in found.items() if words} == {}


def test_there_are_no_binaries_in_the_repository() -> None:
    assert [path.relative_to(ROOT).as_posix() for path in files() if b"\0" in path.read_bytes()] == []


def test_every_link_between_the_documents_leads_somewhere() -> None:
    link = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
    pages = [path for path in files() if path.suffix == ".md"]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in link.findall(page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []

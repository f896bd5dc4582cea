"""docs/architecture.md names the modules that exist: each one in the row of its package, and no other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ROOT / "operator/trainshed"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
#: The rows of the table of packages.
ROWS = dict(re.findall(r"^\| `([\w/]+)/` \| (.*) \|$", PAGE, re.MULTILINE))
#: Each module of this package is a kind of job: the page names some and says so.
KINDS = "frameworks"


def modules(package: str) -> set[str]:
    return {path.name for path in (CODE / package).glob("*.py")} - {"__init__.py"}


def test_every_package_has_a_row() -> None:
    assert ROWS.keys() == {path.parent.relative_to(CODE).as_posix() for path in CODE.glob("*/**/__init__.py")}


@pytest.mark.parametrize("package", ROWS)
def test_the_row_of_a_package_names_its_modules(package: str) -> None:
    named = set(re.findall(r"`(\w+\.py)`", ROWS[package]))
    assert sorted(named - modules(package)) == [], "do not exist"
    assert package == KINDS or sorted(modules(package) - named) == [], "are not named"


def test_modules_that_are_named_with_their_package_exist() -> None:
    named = set(re.findall(r"`([a-z_]+/\w+\.py)`", PAGE))
    assert named
    assert sorted(name for name in named if not (CODE / name).is_file()) == []

"""Counts the lines of Python of the product, of its tests and of their tools, by family: `make sizes`.

The share of tests and tools in lines of the product may only fall. The change that makes it smaller lowers MOST.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Lines of tests, and of tests and hack together, for each line of the product.
MOST = {"tests": 1.34, "tests and hack": 1.466}
PRODUCT, TOOLS = "operator", "hack"
#: Folders whose folders are families of their own.
DIVIDED = ("operator/trainshed", "tests", "tests/unit")


def family(path: str) -> str:
    """The family of a file by its path: its folder within the deepest of DIVIDED, or the folder at the top."""
    within = max((folder for folder in DIVIDED if path.startswith(f"{folder}/")), key=len, default="")
    if not within:
        return path.partition("/")[0]
    first, slash, _ = path.removeprefix(f"{within}/").partition("/")
    return f"{within}/{first}" if slash else within


def counted(files: Iterable[tuple[str, int]]) -> Counter[str]:
    """The lines of each family, of files with their lines."""
    found: Counter[str] = Counter()
    for path, lines in files:
        found[family(path)] += lines
    return found


def sums(families: Counter[str]) -> dict[str, int]:
    """The lines of the product, of the tests, and of tests and hack together."""

    def within(*tops: str) -> int:
        return sum(lines for name, lines in families.items() if name.partition("/")[0] in tops)

    return {"product": within(PRODUCT), "tests": within("tests"), "tests and hack": within("tests", TOOLS)}


def excess(found: dict[str, int]) -> list[str]:
    """A sentence for each share that is above its limit."""
    shares = {name: found[name] / found["product"] for name in MOST}
    return [
        f"{name}: {shares[name]:.3f} lines for each line of the product, at most {MOST[name]} are allowed"
        for name in MOST
        if shares[name] > MOST[name]
    ]


def files() -> list[tuple[str, int]]:
    """The Python files that git tracks in the product, the tests and hack, with their lines."""
    command = ("git", "ls-files", "-z", *(f"{folder}/*.py" for folder in (PRODUCT, "tests", TOOLS)))
    paths = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [(path, (ROOT / path).read_bytes().count(b"\n")) for path in paths if path and (ROOT / path).exists()]


def main() -> None:
    """Print the families and the shares, and fail if a share is above its limit."""
    families = counted(files())
    found = sums(families)
    for name, lines in sorted(families.items()):
        print(f"{lines:>7}  {name}")
    for name, lines in found.items():
        print(f"{lines:>7}  {name}: {lines / found['product']:.3f} of the product")
    if too_many := excess(found):
        sys.exit("\n".join(too_many))


if __name__ == "__main__":
    main()

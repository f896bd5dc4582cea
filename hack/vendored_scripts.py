"""Builds the libraries that the page loads, by npm and terser: smaller than as their authors minify them.

`python -m vendored_scripts` builds them and says whether those in the repository are the same; `--write` replaces them.
What goes in and what comes out is held by digests, so another version of anything is seen.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).parents[1] / "operator" / "trainshed" / "ui" / "static"
PACKAGES = ("uplot@1.6.32", "idiomorph@0.8.0", "terser@5.51.4")
TERSER = ("--ecma", "2020", "--compress", "passes=3,ecma=2020", "--mangle")
#: Lines by which uPlot offers what the page does not draw, such as bars: terser leaves out the code behind them.
NOT_DRAWN = re.compile(r"\s*(?:\(paths\.(?:stepped|bars|spline) *=|uPlot\.(?:join|rangeLog|rangeAsinh) *=).*;")


@dataclass(frozen=True, slots=True)
class Library:
    """A file of a package, the digest of it, and that of what is built from it."""

    source: str
    source_digest: str
    digest: str


LIBRARIES = {
    "uPlot.iife.min.js": Library(
        "uplot/dist/uPlot.iife.js",
        "1b71fc5e6b5b572922ed9941ed21d067207c8e5ecac0d35de66fd65d9686e791",
        "850062145efd59dfd8939c87f8cf4bc4b9805c7291fa8f890a8807449679017d",
    ),
    "idiomorph.min.js": Library(
        "idiomorph/dist/idiomorph.js",
        "4cda2ad0d39c630100957eeb5ec3115f84d57351c6c313579d2441cf48e9880d",
        "74b44a46d685069abf900d681491f3028c49309a8b0a86e6a3295fd8422a6792",
    ),
    "uPlot.min.css": Library(
        "uplot/dist/uPlot.min.css",
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    ),
}


def digest(content: bytes) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(content).hexdigest()


def built(packages: Path, library: Library) -> bytes:
    """Return what is built from a file of a package; `packages` is the folder of npm."""
    content = (packages / library.source).read_bytes()
    if digest(content) != library.source_digest:
        raise SystemExit(f"{library.source} is not the file whose digest is known")
    if not library.source.endswith(".js"):
        return content
    lines = (line for line in content.decode().splitlines(keepends=True) if not NOT_DRAWN.match(line))
    command = (str(packages / ".bin" / "terser"), *TERSER)
    return subprocess.run(command, input="".join(lines).encode(), capture_output=True, check=True).stdout


def main() -> None:
    """Build all, and compare or write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the files in the repository")
    write = parser.parse_args().write
    with tempfile.TemporaryDirectory() as folder:
        install = ("npm", "install", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", *PACKAGES)
        subprocess.run(install, check=True, stdout=sys.stderr)
        for name, library in LIBRARIES.items():
            content = built(Path(folder) / "node_modules", library)
            print(f"{name}: {len(content):,} bytes, sha256 {digest(content)}")
            if write:
                (STATIC / name).write_bytes(content)
            elif digest(content) != library.digest:
                raise SystemExit(f"{name} is not what its digest says")


if __name__ == "__main__":
    main()

"""Shared libraries of which only the names are left: programs that are linked to them start, and no gigabyte is kept.

PyTorch's wheel is linked to all of NVIDIA's libraries and calls none of them where there is no GPU.
"""

from __future__ import annotations

import re
from pathlib import Path

from . import debian
from .steps import output, run

#: Libraries that are queried for a GPU are kept, and so are small ones.
KEPT, SMALL = ("libcudart",), 1_000_000
SYMBOL = re.compile(r"^ *\d+: [0-9a-f]+ +(\d+) (FUNC|OBJECT|IFUNC) +(?:GLOBAL|WEAK) +\S+ +(\w+) (\S+)")


def out(library: Path, log: Path) -> None:
    """Replace a library by one with the same name and symbols, whose functions do nothing and return 1."""
    if library.is_symlink() or library.stat().st_size < SMALL or library.name.startswith(KEPT):
        return
    debian.ensure("cc")
    symbols = _symbols(library)
    source, versions = library.with_suffix(".s"), library.with_suffix(".map")
    source.write_text(_assembly(symbols))
    versions.write_text(_versions(symbols))
    found = re.search(r"\(SONAME\)[^[]*\[(.+)]", output(["readelf", "--dynamic", "--wide", library]))
    soname = found[1] if found else library.name
    command = ["cc", "-shared", "-nostdlib", f"-Wl,-soname,{soname}"]
    if versions.read_text().strip():
        command.append(f"-Wl,--version-script={versions}")
    run([*command, "-o", library, source], log)
    source.unlink()
    versions.unlink()


def _symbols(library: Path) -> dict[str, tuple[str, str, int]]:
    """Each name with its version, its kind and its size in bytes.

    What begins with an underscore belongs to C++ and its runtime, which some have a copy of: others would call these.
    """
    found: dict[str, tuple[str, str, int]] = {}
    for line in output(["readelf", "--dyn-syms", "--wide", library]).splitlines():
        match = SYMBOL.match(line)
        if match and match[3] not in ("UND", "ABS") and (match[4][0] != "_" or match[4].startswith("__nv")):
            name, _, version = match[4].partition("@")
            plain = version.lstrip("@") if re.fullmatch(r"[@\w.]+", version) else ""
            found.setdefault(name, (plain, match[2], int(match[1])))
    return found


def _assembly(symbols: dict[str, tuple[str, str, int]]) -> str:
    functions = [name for name, (_, kind, _) in symbols.items() if kind in ("FUNC", "IFUNC")]
    lines = [".text"]
    for name in functions:
        lines += [f".globl {name}", f".type {name}, @function", f"{name}:"]
    lines += ["movl $1, %eax", "ret", ".bss"]
    for name in symbols.keys() - set(functions):
        size = symbols[name][2]
        lines += [".balign 32", f".globl {name}", f".type {name}, @object", f".size {name}, {size}", f"{name}:"]
        lines.append(f".zero {max(size, 1)}")
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""])


def _versions(symbols: dict[str, tuple[str, str, int]]) -> str:
    groups: dict[str, list[str]] = {}
    for name, (version, _, _) in symbols.items():
        if version:
            groups.setdefault(version, []).append(name)
    parts = (f"{version} {{ global: {' '.join(f'{name};' for name in names)} }};" for version, names in groups.items())
    return "\n".join([*parts, ""])

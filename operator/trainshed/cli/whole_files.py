"""Files that commands write, which are there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a file as a whole, with this mode: until then one that exists stays as it is. Raises `OSError`."""
    content = text.encode(errors="replace")
    if path.exists() and not path.is_file():  # such as /dev/stdout; a folder is an error
        path.write_bytes(content)
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise

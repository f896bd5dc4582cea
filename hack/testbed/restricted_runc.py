#!/usr/bin/env python3
"""Runs runc for docker where root lacks capabilities: removes from each container what the kernel would refuse."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

#: The capabilities by number, as in linux/capability.h.
# fmt: off
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)
# fmt: on


def restrict(process: dict, bounds: int) -> None:
    """Remove from a process what the kernel refuses: capabilities beyond `bounds`, limits, and a lower OOM score."""
    within = {f"CAP_{name}" for number, name in enumerate(CAPABILITIES) if bounds >> number & 1}
    for kind, wanted in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [name for name in wanted or () if name in within]
    process.pop("rlimits", None)
    process["oomScoreAdj"] = max(0, process.get("oomScoreAdj") or 0)


def option(words: list[str], *names: str) -> str | None:
    """The value of an option of runc's, given in either way."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, given, value = word.partition("=")
        if name in names:
            return value if given else following
    return None


def available() -> int:
    """The capabilities within this process's reach, as bits."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("CapBnd")).split()[1], 16)


def main(words: list[str]) -> None:
    """Restrict the container that runc is about to start, then execute runc."""
    path = None
    if "create" in words or "run" in words:
        path = Path(option(words, "--bundle", "-b") or ".") / "config.json"
    elif "exec" in words and (named := option(words, "--process", "-p")):
        path = Path(named)
    if path:
        document = json.loads(path.read_text())
        restrict(document.get("process", document), available())
        path.write_text(json.dumps(document))
    os.execvp("runc", ["runc", *words])


if __name__ == "__main__":
    main(sys.argv[1:])

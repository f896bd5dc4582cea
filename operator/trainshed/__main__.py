"""Entry point: the command line."""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import TYPE_CHECKING

from trainshed.cli import cli

if TYPE_CHECKING:  # importing it takes longer than everything else that `--version` needs
    from trainshed.config import Config


def run(config: Config) -> int:
    """Run the operator until a signal or an error ends it; return the exit code."""
    gc.disable()  # a tenth of the time that the imports take; the manager enables it again
    from trainshed.controller import manager  # noqa: PLC0415 - only this command needs it, and it takes long to import

    return manager.run(config)


def prepare_output() -> None:
    """Let no character of a log or a name end a command whose output has another encoding, and no closed output."""
    if sys.stdout is None:  # it was closed when the program began
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for as long as the program runs
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def main() -> None:
    """Run the command line, under the name by which it was called: kubectl runs `kubectl-trainshed`."""
    prepare_output()
    name = "kubectl trainshed" if sys.argv[0].rpartition(os.sep)[2].startswith("kubectl-") else None
    cli(obj=run, auto_envvar_prefix="TRAINSHED", prog_name=name)


if __name__ == "__main__":
    main()

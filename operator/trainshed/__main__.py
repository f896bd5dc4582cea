"""Entry point: the command line."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from trainshed.cli import cli

if TYPE_CHECKING:  # importing it takes longer than everything else that `--version` needs
    from trainshed.config import Config


def run(config: Config) -> int:
    """Run the operator until a signal or an error ends it; return the exit code."""
    gc.disable()  # a tenth of the time that the imports take; the manager enables it again
    from trainshed.controller import manager  # noqa: PLC0415 - only this command needs it, and it takes long to import

    return manager.run(config)


def main() -> None:
    """Run the command line."""
    cli(obj=run, auto_envvar_prefix="TRAINSHED")


if __name__ == "__main__":
    main()

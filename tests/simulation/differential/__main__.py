"""`python -m simulation.differential N`: run N sequences of calls on the real and the simulated server and compare."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from pathlib import Path

from reliability.results import keep

from .campaign import Campaign
from .ground import ground


def main() -> int:
    """Run, tell, and write the figures down if asked to; 1 if there is a difference."""
    parser = argparse.ArgumentParser(prog="python -m simulation.differential", description=__doc__)
    parser.add_argument("count", type=int, help="how many sequences")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first")
    parser.add_argument("--workers", type=int, default=8, help="so many at once")
    parser.add_argument("--result", type=Path, help="the file that the figures go to")
    parser.add_argument("--kubeconfig", type=Path, help="a control plane that runs already, with our CRDs")
    asked = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if not asked.kubeconfig:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="likeness-"))
            asked.kubeconfig = stack.enter_context(ground(Path(folder))).kubeconfig
        began = time.monotonic()
        campaign = Campaign(asked.kubeconfig, range(asked.first, asked.first + asked.count))
        campaign.checkpoint = lambda so_far: _write(asked, so_far)
        asyncio.run(campaign.run(asked.workers))
        seconds = time.monotonic() - began
    print(f"{campaign} in {seconds:.0f} s")
    _write(asked, campaign)
    return 1 if campaign.differences else 0


def _write(asked: argparse.Namespace, campaign: Campaign) -> None:
    """The figures so far."""
    if asked.result:
        keep(asked.result, f"make sim-conformance N={asked.count}", campaign.figures())


if __name__ == "__main__":
    sys.exit(main())

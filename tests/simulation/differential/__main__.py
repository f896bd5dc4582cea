"""`python -m simulation.differential N`: run N sequences of calls on the real and the simulated server, and compare."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from pathlib import Path

from support.results import keep

from .campaign import Campaign
from .conftest import comparable_control_plane


def main() -> int:
    """Run the sequences and write the results; return 1 if there is a difference."""
    parser = argparse.ArgumentParser(prog="python -m simulation.differential", description=__doc__)
    parser.add_argument("count", type=int, help="how many sequences")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first")
    parser.add_argument("--workers", type=int, default=8, help="run this number at a time")
    parser.add_argument("--result", type=Path, help="write the results to this file")
    parser.add_argument("--kubeconfig", type=Path, help="use a running control plane with the CRDs")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        if not options.kubeconfig:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="differential-"))
            options.kubeconfig = stack.enter_context(comparable_control_plane(Path(folder))).kubeconfig
        began = time.monotonic()
        campaign = Campaign(options.kubeconfig, range(options.first, options.first + options.count))
        campaign.checkpoint = lambda so_far: _write(options, so_far)
        asyncio.run(campaign.run(options.workers))
        seconds = time.monotonic() - began
    print(f"{campaign} in {seconds:.0f} s")
    _write(options, campaign)
    return 1 if campaign.differences else 0


def _write(options: argparse.Namespace, campaign: Campaign) -> None:
    """The figures so far."""
    if options.result:
        keep(options.result, f"make sim-conformance N={options.count}", campaign.figures())


if __name__ == "__main__":
    sys.exit(main())

"""Three ranks of PyTorch, of which rank 1 never joins the fourth all_reduce, with torch's debug server on a port.

With torch 2.13.0 the pages in `recorded/` were read from it, by `curl localhost:PORT/stacks`; only the paths of the
machine and the names of the hosts were changed. With `--silent` rank 1 keeps the lock of the interpreter, so that its
own server does not answer. Besides torch it needs jinja2, tabulate and requests.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import time

RANKS = 3


def load_batch(step: int, *, silent: bool) -> float:
    """The next batch; rank 1 waits for the fourth one without end."""
    if os.environ["RANK"] == "1" and step == 3:
        if silent:
            ctypes.PyDLL(None).sleep(3600)
        time.sleep(3600)
    return 1.0


def train(port: int, *, silent: bool) -> None:
    """Reduce batches."""
    import torch  # noqa: PLC0415 - tests run without it, too
    from torch.distributed import all_reduce, debug, init_process_group  # noqa: PLC0415

    init_process_group("gloo")
    debug.start_debug_server(port=port)
    for step in range(10):
        all_reduce(torch.tensor(load_batch(step, silent=silent)))


def main() -> None:
    """Train as one of the ranks, or start all of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("store", type=int)
    parser.add_argument("--silent", action="store_true")
    options = parser.parse_args()
    if "RANK" in os.environ:
        train(options.port, silent=options.silent)
        return
    every = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(options.store), "WORLD_SIZE": str(RANKS)}
    ranks = [
        subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, **every, "RANK": str(rank)})
        for rank in range(RANKS)
    ]
    try:
        for rank in ranks:
            rank.wait()
    finally:
        for rank in ranks:
            rank.kill()


if __name__ == "__main__":
    main()

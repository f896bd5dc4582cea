"""Training that survives every fault of `trainshed drill`: it saves whole files, loads the newest, and heeds SIGTERM.

The model is a line with two numbers, in plain Python: what matters is around it. All ranks compute gradients on their
share of the data, and rank 0 averages them.
"""

import json
import os
import random
import shutil
import signal
import time
from multiprocessing.connection import Client, Listener
from pathlib import Path

STEPS, EVERY = 100, 5
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ADDRESS, KEY = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), b"survivor"
FOLDER = Path(os.environ["CHECKPOINT_DIR"])  # on a volume that all pods of the job share
CHECKPOINT = FOLDER / "checkpoint.json"
STOPPED = []


def make_data(count):
    """Return points near the line y = 3x - 1, the same in every rank."""
    source = random.Random(0)  # noqa: S311 - data, no secrets
    points = [source.uniform(-1, 1) for _ in range(count)]
    return [(x, 3 * x - 1 + source.gauss(0, 0.1)) for x in points]


def save(step, weights):
    """Write the checkpoint to a new file and rename it: a kill in between leaves the one before."""
    draft = CHECKPOINT.with_suffix(".draft")
    with draft.open("w") as file:
        json.dump({"step": step, "weights": weights}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(CHECKPOINT)


def load():
    """Return the step and the weights of the checkpoint; nothing in it depends on the number of ranks."""
    if not CHECKPOINT.exists():
        return 0, [0.0, 0.0]
    found = json.loads(CHECKPOINT.read_text())
    print(f"resumed at step {found['step']}", flush=True)
    return found["step"], found["weights"]


def connect():
    """Return the connections to all other ranks in rank 0, and to rank 0 in the others."""
    if RANK == 0:
        with Listener(("", ADDRESS[1]), authkey=KEY) as listener:
            return [listener.accept() for _ in range(WORLD - 1)]
    for _ in range(600):
        try:
            return [Client(ADDRESS, authkey=KEY)]
        except OSError:  # rank 0 does not listen yet, or its name is not known yet
            time.sleep(0.1)
    raise SystemExit("rank 0 cannot be reached")


def gradient(weights, share):
    """Return the gradient of the loss, and the loss, on a share of the data."""
    errors = [(weights[0] * x + weights[1] - y, x) for x, y in share]
    loss = sum(error**2 for error, _ in errors)
    return [sum(2 * error * x for error, x in errors), sum(2 * error for error, _ in errors), loss]


def summed(peers, own, *, stops):
    """Return the sum of the vectors of all ranks, and whether one of them has got SIGTERM: all end at the same step."""
    if RANK:
        peers[0].send((own, stops))
        return peers[0].recv()
    found = [(own, stops), *(peer.recv() for peer in peers)]
    total = [sum(parts) for parts in zip(*(vector for vector, _ in found), strict=True)]
    for peer in peers:
        peer.send((total, any(stop for _, stop in found)))
    return total, any(stop for _, stop in found)


def main():
    """Train, save each few steps and at SIGTERM, and fail unless the line was found."""
    signal.signal(signal.SIGTERM, lambda *_: STOPPED.append(True))
    FOLDER.mkdir(parents=True, exist_ok=True)
    data = make_data(300)
    peers = connect()
    first, weights = load()
    summed(peers, [0.0], stops=False)  # no rank saves before all have loaded
    for step in range(first + 1, STEPS + 1):
        time.sleep(0.05)  # as if it took long
        total, stops = summed(peers, gradient(weights, data[RANK::WORLD]), stops=bool(STOPPED))
        weights = [weight - 0.1 * part / len(data) for weight, part in zip(weights, total, strict=False)]
        if RANK == 0:
            print(f"step={step}/{STEPS} loss={total[2] / len(data):.4f}", flush=True)
            if stops or step % EVERY == 0:
                save(step, weights)
        if stops:
            raise SystemExit(128 + signal.SIGTERM)
    print(f"done: y = {weights[0]:.2f}x {weights[1]:+.2f}")
    assert total[2] / len(data) < 0.1, "the line was not found"
    if RANK == 0:
        shutil.rmtree(FOLDER)  # so that the next run of this example starts from scratch


if __name__ == "__main__":
    main()

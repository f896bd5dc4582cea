"""Boosted trees on three machines: each has a third of Fisher's irises, and all build the same trees."""

import hashlib
import os
import socket

import numpy as np
import xgboost
from xgboost.collective import CommunicatorContext
from xgboost.tracker import RabitTracker

ROUNDS = 20
SETTINGS = {
    "objective": "multi:softprob",
    "num_class": 3,
    "eval_metric": "mlogloss",
    "tree_method": "hist",
    "max_depth": 3,
    "eta": 0.3,
    "nthread": 1,
}
#: Fifty flowers of each kind: length and width of the sepal, then of the petal, two digits each, in millimetres.
IRISES = {
    "setosa": """
        51351402 49301402 47321302 46311502 50361402 54391704 46341403 50341502 44291402 49311501
        54371502 48341602 48301401 43301101 58401202 57441504 54391304 51351403 57381703 51381503
        54341702 51371504 46361002 51331705 48341902 50301602 50341604 52351502 52341402 47321602
        48311602 54341504 52411501 55421402 49311502 50321202 55351302 49361401 44301302 51341502
        50351303 45231303 44321302 50351606 51381904 48301403 51381602 46321402 53371502 50331402
    """,
    "versicolor": """
        70324714 64324515 69314915 55234013 65284615 57284513 63334716 49243310 66294613 52273914
        50203510 59304215 60224010 61294714 56293613 67314414 56304515 58274110 62224515 56253911
        59324818 61284013 63254915 61284712 64294313 66304414 68284814 67305017 60294515 57263510
        55243811 55243710 58273912 60275116 54304515 60344516 67314715 63234413 56304113 55254013
        55264412 61304614 58264012 50233310 56274213 57304212 57294213 62294313 51253011 57284113
    """,
    "virginica": """
        63336025 58275119 71305921 63295618 65305822 76306621 49254517 73296318 67255818 72366125
        65325120 64275319 68305521 57255020 58285124 64325323 65305518 77386722 77266923 60225015
        69325723 56284920 77286720 63274918 67335721 72326018 62284818 61304918 64285621 72305816
        74286119 79386420 64285622 63285115 61265614 77306123 63345624 64315518 60304818 69315421
        67315624 69315123 58275119 68325923 67335725 67305223 63255019 65305220 62345423 59305118
    """,
}


def make_data():
    """Return all flowers in an order that mixes the kinds: their measurements, and the index of the kind."""
    flowers = [flower for kind in IRISES.values() for flower in kind.split()]
    measures = np.array([[int(flower[at : at + 2]) for at in (0, 2, 4, 6)] for flower in flowers], np.float32)
    order = np.random.default_rng(0).permutation(len(flowers))
    return measures[order], (np.arange(len(flowers)) // 50)[order]


def start_tracker(world, port):
    """Start the tracker to which the ranks connect. It runs beside rank 0 and needs the address of this pod."""
    here = socket.gethostbyname(socket.gethostname())
    tracker = RabitTracker(n_workers=world, host_ip=here, port=port, sortby="task")
    tracker.start()
    print(f"the tracker listens at {here}:{port}")
    return tracker


def train(rank, world):
    """Train on a third of four fifths of the flowers; every rank evaluates the trees on the last fifth."""
    measures, kinds = make_data()
    train_on, test_on = slice(rank, 120, world), slice(120, None)
    print(f"rank {rank} of {world} trains on {len(kinds[train_on])} of 120 flowers")
    mine = xgboost.DMatrix(measures[train_on], kinds[train_on])
    trees = xgboost.train(SETTINGS, mine, ROUNDS, evals=[(mine, "train")], verbose_eval=5)

    guesses = trees.inplace_predict(measures[test_on]).argmax(axis=1)
    accuracy = np.mean(guesses == kinds[test_on])
    fingerprint = hashlib.sha256("".join(trees.get_dump()).encode()).hexdigest()[:12]
    print(f"rank {rank} is done: trees {fingerprint}, accuracy on 30 new flowers {accuracy:.3f}")
    assert accuracy > 0.85, "the trees did not learn"


def main():
    """Connect to rank 0's tracker and train."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    tracker = start_tracker(world, port) if rank == 0 else None
    print(f"rank {rank} connects to {host}:{port}")
    with CommunicatorContext(
        dmlc_communicator="rabit",
        dmlc_tracker_uri=host,
        dmlc_tracker_port=port,
        dmlc_task_id=str(rank),
        dmlc_timeout=60,  # seconds until a silent peer counts as lost
    ):
        train(rank, world)
    if tracker:
        tracker.wait_for()  # returns when all ranks have finished


if __name__ == "__main__":
    main()

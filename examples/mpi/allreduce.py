"""Data-parallel training with MPI: each rank finds the gradients of its share, and `Allreduce` adds them up."""

import hashlib
import socket

import numpy as np
from mpi4py import MPI

EPOCHS = 10
BATCH = 100  # points of one rank

ranks = MPI.COMM_WORLD


def make_data(count, seed):
    """Points scattered around ten centres, and the number of the centre that each belongs to."""
    centres = np.random.default_rng(0).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    return centres[labels] + 0.8 * random.normal(size=(count, 16)), labels


def forward(weights, points):
    """What the hidden layer says, and how probable each centre is for each point."""
    first, second = weights
    hidden = np.maximum(points @ first, 0)
    scores = hidden @ second
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, odds / odds.sum(axis=1, keepdims=True)


def backward(weights, points, labels):
    """The mean loss of a batch, and its gradient for each layer of weights."""
    hidden, odds = forward(weights, points)
    loss = -np.log(odds[np.arange(len(labels)), labels]).mean()
    error = odds.copy()
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    behind = (error @ weights[1].T) * (hidden > 0)
    return loss, [points.T @ behind, hidden.T @ error]


def mean_over_ranks(values):
    """The mean of arrays that every rank has its own of: the same on all of them."""
    total = np.empty_like(values)
    ranks.Allreduce(values, total)
    return total / ranks.size


def train_epoch(weights, points, labels, order):
    """One pass over this rank's share of the data; the mean loss of all ranks."""
    losses = []
    for batch in np.split(order, len(order) // BATCH):
        loss, slopes = backward(weights, points[batch], labels[batch])
        for layer, slope in enumerate(slopes):
            weights[layer] -= 0.5 * mean_over_ranks(slope)
        losses.append(loss)
    return mean_over_ranks(np.array(losses)).mean()


def main():
    """Train on a share of one data set, compare the copies, and fail unless the model tells the centres apart."""
    print(f"rank {ranks.rank} of {ranks.size} runs on {socket.gethostname()}", flush=True)
    points, labels = (part[ranks.rank :: ranks.size] for part in make_data(6000, seed=1))
    random = np.random.default_rng(7)  # the same on all ranks, so that they begin alike
    weights = [random.normal(size=shape) / shape[0] ** 0.5 for shape in ((16, 64), (64, 10))]
    for epoch in range(1, EPOCHS + 1):
        loss = train_epoch(weights, points, labels, random.permutation(len(labels)))
        if ranks.rank == 0:
            print(f"epoch {epoch}: loss {loss:.6f}", flush=True)

    # Every rank shows a fingerprint of its own copy: equal ones mean that the copies have stayed equal to the last bit.
    prints = ranks.gather(hashlib.sha256(b"".join(weight.tobytes() for weight in weights)).hexdigest()[:12])
    places = ranks.gather(socket.gethostname())
    points, labels = make_data(1000, seed=2)
    accuracy = np.mean(forward(weights, points)[1].argmax(axis=1) == labels)
    if ranks.rank == 0:
        assert len(set(prints)) == 1, f"the copies differ: {prints}"
        print(f"{ranks.size} ranks on {len(set(places))} pods agree on the weights {prints[0]}")
        print(f"accuracy on new points {accuracy:.3f}", flush=True)
    assert accuracy > 0.9, "the model did not learn"


if __name__ == "__main__":
    main()

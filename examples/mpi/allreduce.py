"""Data-parallel training with MPI: each rank computes the gradients of its share, and `Allreduce` adds them up."""

import hashlib
import socket

import numpy as np
from mpi4py import MPI

EPOCHS = 10
BATCH = 100  # points per rank

ranks = MPI.COMM_WORLD


def make_data(count, seed):
    """Return points scattered around ten centres, and the index of each point's centre."""
    centres = np.random.default_rng(0).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    return centres[labels] + 0.8 * random.normal(size=(count, 16)), labels


def forward(weights, points):
    """Return the activations of the hidden layer, and the probability of each centre for each point."""
    first, second = weights
    hidden = np.maximum(points @ first, 0)
    scores = hidden @ second
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, odds / odds.sum(axis=1, keepdims=True)


def backward(weights, points, labels):
    """Return the mean loss of a batch, and its gradient for each layer of weights."""
    hidden, odds = forward(weights, points)
    loss = -np.log(odds[np.arange(len(labels)), labels]).mean()
    error = odds.copy()
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    behind = (error @ weights[1].T) * (hidden > 0)
    return loss, [points.T @ behind, hidden.T @ error]


def mean_over_ranks(values):
    """Return the mean over all ranks of an array; the result is the same on every rank."""
    total = np.empty_like(values)
    ranks.Allreduce(values, total)
    return total / ranks.size


def train_epoch(weights, points, labels, order):
    """Train one epoch on this rank's share of the data; return the mean loss of all ranks."""
    losses = []
    for batch in np.split(order, len(order) // BATCH):
        loss, slopes = backward(weights, points[batch], labels[batch])
        for layer, slope in enumerate(slopes):
            weights[layer] -= 0.5 * mean_over_ranks(slope)
        losses.append(loss)
    return mean_over_ranks(np.array(losses)).mean()


def main():
    """Train on a share of the data set, compare the copies, and fail unless the model has learned to classify."""
    print(f"rank {ranks.rank} of {ranks.size} runs on {socket.gethostname()}", flush=True)
    points, labels = (part[ranks.rank :: ranks.size] for part in make_data(6000, seed=1))
    random = np.random.default_rng(7)  # the same seed on all ranks, so that they start with equal weights
    weights = [random.normal(size=shape) / shape[0] ** 0.5 for shape in ((16, 64), (64, 10))]
    for epoch in range(1, EPOCHS + 1):
        loss = train_epoch(weights, points, labels, random.permutation(len(labels)))
        if ranks.rank == 0:
            print(f"epoch {epoch}: loss {loss:.6f}", flush=True)

    # Every rank prints a fingerprint of its own copy: equal ones mean that the copies are equal to the last bit.
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

"""Data-parallel training with Paddle: `paddle.distributed.launch` connects the processes, gradients are averaged."""

import hashlib

import numpy as np
import paddle
from paddle import distributed, nn
from paddle.io import DataLoader, DistributedBatchSampler, TensorDataset

EPOCHS = 6


def make_data(count, seed):
    """Return points scattered around ten centres, and the index of each point's centre."""
    centres = np.random.default_rng(0).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    points = centres[labels] + 0.8 * random.normal(size=(count, 16))
    return paddle.to_tensor(points, "float32"), paddle.to_tensor(labels, "int64")


def mean_over_ranks(value):
    """Return the mean over all ranks of a number; the result is the same on every rank."""
    total = paddle.to_tensor([float(value)])
    distributed.all_reduce(total)
    return total.item() / distributed.get_world_size()


def train_epoch(model, optimizer, batches):
    """Train one epoch on this rank's share of the data; return the mean loss of the batches."""
    losses = []
    for points, labels in batches:
        loss = nn.functional.cross_entropy(model(points), labels)
        loss.backward()  # averages the gradients of all ranks
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main():
    """Train on a share of the data set, average the loss, and fail unless the model has learned to classify."""
    distributed.init_parallel_env()
    rank, world = distributed.get_rank(), distributed.get_world_size()
    paddle.seed(rank)  # ranks differ at first; DataParallel copies the weights of rank 0 to all of them
    network = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10))
    model = paddle.DataParallel(network)
    optimizer = paddle.optimizer.Adam(learning_rate=0.003, parameters=model.parameters())

    data = TensorDataset(make_data(6000, seed=1))
    sampler = DistributedBatchSampler(data, batch_size=50, shuffle=True)  # splits the data among the ranks
    batches = DataLoader(data, batch_sampler=sampler)
    print(f"rank {rank} of {world} trains on {len(sampler)} batches per epoch", flush=True)
    for epoch in range(1, EPOCHS + 1):
        sampler.set_epoch(epoch)  # shuffles the data differently
        loss = mean_over_ranks(train_epoch(model, optimizer, batches))
        print(f"epoch {epoch}: loss {loss:.6f}", flush=True)

    # Every rank evaluates its own copy of the model without communication.
    points, labels = make_data(1000, seed=2)
    accuracy = (network(points).argmax(axis=1) == labels).astype("float32").mean().item()
    weights = b"".join(weight.numpy().tobytes() for weight in network.parameters())
    print(f"rank {rank} is done: weights {hashlib.sha256(weights).hexdigest()[:12]}, accuracy {accuracy:.3f}")
    assert accuracy > 0.9, "the model did not learn"


if __name__ == "__main__":
    main()

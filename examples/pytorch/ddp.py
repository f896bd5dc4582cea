"""Data-parallel training without a launcher: one process per pod, connected by the `env://` variables alone."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS = 8


def make_data(count, seed):
    """Return points scattered around ten centres, and the index of each point's centre."""
    centres = torch.randn(10, 16, generator=torch.Generator().manual_seed(0))
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=random)
    return TensorDataset(centres[labels] + 0.8 * torch.randn(count, 16, generator=random), labels)


def mean_over_ranks(value):
    """Return the mean over all ranks of a number; the result is the same on every rank."""
    total = torch.tensor(float(value))
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def train_epoch(model, optimizer, batches):
    """Train one epoch on this rank's share of the data; return the mean loss of the batches."""
    losses = []
    for points, labels in batches:
        loss = nn.functional.cross_entropy(model(points), labels)
        optimizer.zero_grad()
        loss.backward()  # averages the gradients of all ranks
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main():
    """Train on a share of the data set, average the loss, and fail unless the model has learned to classify."""
    print(f"rank {os.environ['RANK']} connects to {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}")
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

    data = make_data(6000, seed=1)
    sampler = DistributedSampler(data)  # splits the data among the ranks
    batches = DataLoader(data, batch_size=50, sampler=sampler)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} trains on {len(sampler)} of {len(data)} points")

    for epoch in range(1, EPOCHS + 1):
        sampler.set_epoch(epoch)  # shuffles the data differently
        loss = mean_over_ranks(train_epoch(model, optimizer, batches))
        print(f"epoch {epoch}: loss {loss:.6f}")

    # Every rank evaluates its own copy of the model without communication: equal results mean equal weights.
    points, labels = make_data(1000, seed=2).tensors
    with torch.no_grad():
        guesses = model.module(points)
    accuracy = (guesses.argmax(dim=1) == labels).float().mean().item()
    print(f"final loss {nn.functional.cross_entropy(guesses, labels):.6f}, accuracy on new points {accuracy:.3f}")
    dist.destroy_process_group()
    assert accuracy > 0.9, "the model did not learn"


if __name__ == "__main__":
    main()

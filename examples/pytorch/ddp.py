"""Data-parallel training without a launcher: one process a pod, which meet by the `env://` variables alone."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS = 8


def make_data(count, seed):
    """Points scattered around ten centres, and the number of the centre that each belongs to."""
    centres = torch.randn(10, 16, generator=torch.Generator().manual_seed(0))
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=random)
    return TensorDataset(centres[labels] + 0.8 * torch.randn(count, 16, generator=random), labels)


def mean_over_ranks(value):
    """The mean of a number that every rank has its own of: the same on all of them."""
    total = torch.tensor(float(value))
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def train_epoch(model, optimizer, batches):
    """One pass over this rank's share of the data; the mean loss of the batches."""
    losses = []
    for points, labels in batches:
        loss = nn.functional.cross_entropy(model(points), labels)
        optimizer.zero_grad()
        loss.backward()  # here the gradients of all ranks are averaged
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main():
    """Train on a share of one data set, agree on the loss, and fail unless the model tells the centres apart."""
    print(f"rank {os.environ['RANK']} looks for {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}")
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

    data = make_data(6000, seed=1)
    sampler = DistributedSampler(data)  # splits the data among the ranks
    batches = DataLoader(data, batch_size=50, sampler=sampler)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {len(sampler)} of {len(data)} points are mine")

    for epoch in range(1, EPOCHS + 1):
        sampler.set_epoch(epoch)  # another split
        loss = mean_over_ranks(train_epoch(model, optimizer, batches))
        print(f"epoch {epoch}: loss {loss:.6f}")

    # Every rank judges its own copy of the model, without asking the others: equal figures mean equal weights.
    points, labels = make_data(1000, seed=2).tensors
    with torch.no_grad():
        guesses = model.module(points)
    accuracy = (guesses.argmax(dim=1) == labels).float().mean().item()
    print(f"final loss {nn.functional.cross_entropy(guesses, labels):.6f}, accuracy on new points {accuracy:.3f}")
    dist.destroy_process_group()
    assert accuracy > 0.9, "the model did not learn"


if __name__ == "__main__":
    main()

"""The training of single.py on several machines: each works on its share of the data, and all copies stay equal."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 200, 60


def make_data(count):
    """Return points scattered around ten centres, and the index of each point's centre."""
    random = torch.Generator().manual_seed(0)
    centres = torch.randn(10, 16, generator=random)
    labels = torch.randint(10, (count,), generator=random)
    return centres[labels] + 0.8 * torch.randn(count, 16, generator=random), labels


def main():
    """Train, and fail unless the model has learned to classify the points."""
    # The operator sets MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, which say where the others are.
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    model = DistributedDataParallel(model)  # after each backward pass every copy has the mean of all gradients
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    points, labels = (part[rank::world].to(device) for part in make_data(6000))  # the share of this rank

    for step in range(1, STEPS + 1):
        batch = torch.randint(len(points), (BATCH // world,))
        loss = nn.functional.cross_entropy(model(points[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.05)  # as if the model was large
        if rank == 0:
            print(f"step={step}/{STEPS} loss={loss.item():.4f}", flush=True)

    accuracy = (model(points).argmax(dim=1) == labels).float().mean().item()
    print(f"done: accuracy {accuracy:.3f}")
    dist.destroy_process_group()
    assert accuracy > 0.85, "the model did not learn"


if __name__ == "__main__":
    main()

"""One model on three machines: each trains on its own share of the data, and all copies stay equal."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# The operator sets MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE. The three machines need nothing else to connect.
dist.init_process_group("gloo")  # "nccl" on GPUs
rank, world = dist.get_rank(), dist.get_world_size()
print(f"rank {rank} of {world} is ready")

# Points scattered around ten centres; the model predicts the centre of a point. Every rank draws other points.
centres = torch.randn(10, 16, generator=torch.Generator().manual_seed(0))
share = torch.Generator().manual_seed(1 + rank)
labels = torch.randint(10, (2000,), generator=share)
points = centres[labels] + 0.8 * torch.randn(2000, 16, generator=share)

# DistributedDataParallel gives every rank the same weights and, after each backward pass, the mean of all gradients.
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

for epoch in range(1, 11):
    for batch in torch.randperm(2000, generator=share).split(50):
        loss = nn.functional.cross_entropy(model(points[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean)
    print(f"epoch {epoch}: loss {mean / world:.4f}")

accuracy = (model(points).argmax(dim=1) == labels).float().mean().item()
print(f"rank {rank} is done: accuracy {accuracy:.3f}")
dist.destroy_process_group()
assert accuracy > 0.9, "the model did not learn"

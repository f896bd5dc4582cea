"""Elastic training: when a pod is lost, the others continue as a smaller group, which grows when the pod is back."""

import os
import shutil
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

EPOCHS = 30
FOLDER = Path(os.environ["CHECKPOINT_DIR"])  # on a volume that all pods of the job share
CHECKPOINT = FOLDER / "checkpoint.pt"


def make_data(count, seed):
    """Return points scattered around ten centres, and the index of each point's centre."""
    centres = torch.randn(10, 16, generator=torch.Generator().manual_seed(0))
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=random)
    return centres[labels] + 0.8 * torch.randn(count, 16, generator=random), labels


def save(model, optimizer, epoch):
    """Write the checkpoint to a new file and rename it: a crash in between leaves a complete checkpoint."""
    draft = CHECKPOINT.with_suffix(".draft")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, draft)
    draft.replace(CHECKPOINT)


def resume(model, optimizer):
    """Load the checkpoint if it exists; return the number of the next epoch."""
    if not CHECKPOINT.exists():
        return 1
    checkpoint = torch.load(CHECKPOINT, weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return checkpoint["epoch"] + 1


def main():
    """Train in a group of any size; torchrun restarts this on every pod whenever the group changes."""
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    first = resume(model, optimizer)
    print(f"rank {rank} in a group of {world} begins with epoch {first}")
    dist.barrier()  # no rank writes the next checkpoint before all ranks have read this one

    points, labels = make_data(2000, seed=1 + rank)
    for epoch in range(first, EPOCHS + 1):
        for batch in torch.randperm(len(points)).split(50):
            loss = nn.functional.cross_entropy(model(points[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}, group of {world}")
        if rank == 0:
            save(model, optimizer, epoch)
        time.sleep(0.5)  # a real epoch takes longer; this leaves time to lose a pod

    points, labels = make_data(1000, seed=0)
    accuracy = (model(points).argmax(dim=1) == labels).float().mean().item()
    print(f"done: accuracy on new points {accuracy:.3f}, group of {world}")
    dist.barrier()
    dist.destroy_process_group()
    assert accuracy > 0.9, "the model did not learn"
    if rank == 0:
        shutil.rmtree(FOLDER)  # so that the next run of this example starts from scratch


if __name__ == "__main__":
    main()

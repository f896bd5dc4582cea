"""The training of distributed.py with checkpoints: it loads the newest at each start, and saves at SIGTERM, too."""

import os
import shutil
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH, EVERY = 200, 60, 20
FOLDER = Path(os.environ["CHECKPOINT_DIR"])  # on a volume that all pods of the job share
CHECKPOINT = FOLDER / "checkpoint.pt"


def make_data(count):
    """Return points scattered around ten centres, and the index of each point's centre."""
    random = torch.Generator().manual_seed(0)
    centres = torch.randn(10, 16, generator=random)
    labels = torch.randint(10, (count,), generator=random)
    return centres[labels] + 0.8 * torch.randn(count, 16, generator=random), labels


def save(model, optimizer, step):
    """Write the checkpoint to a new file and rename it: a kill in between leaves the one before."""
    draft = CHECKPOINT.with_suffix(".draft")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, draft)
    draft.replace(CHECKPOINT)


def load(model, optimizer):
    """Load the newest checkpoint, if there is one; return the number of its step, or 0."""
    if not CHECKPOINT.exists():
        return 0
    found = torch.load(CHECKPOINT, weights_only=True)
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    print(f"resumed at step {found['step']}", flush=True)
    return found["step"]


def main():
    """Train, and fail unless the model has learned to classify the points."""
    stopped = torch.zeros(1)
    signal.signal(signal.SIGTERM, lambda *_: stopped.fill_(1))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    first = load(model, optimizer)
    dist.barrier()  # no rank saves before all have loaded
    points, labels = (part[rank::world].to(device) for part in make_data(6000))

    for step in range(first + 1, STEPS + 1):
        batch = torch.randint(len(points), (BATCH // world,))
        loss = nn.functional.cross_entropy(model(points[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.05)  # as if the model was large
        leaving = stopped.clone()
        dist.all_reduce(leaving)  # all ranks stop at the same step if one of them has got SIGTERM
        if rank == 0:
            print(f"step={step}/{STEPS} loss={loss.item():.4f}", flush=True)
            if leaving or step % EVERY == 0:
                save(model, optimizer, step)
        if leaving:
            dist.barrier()  # no rank leaves before the checkpoint is complete
            raise SystemExit(128 + signal.SIGTERM)

    accuracy = (model(points).argmax(dim=1) == labels).float().mean().item()
    print(f"done: accuracy {accuracy:.3f}")
    dist.barrier()
    dist.destroy_process_group()
    assert accuracy > 0.85, "the model did not learn"
    if rank == 0:
        shutil.rmtree(FOLDER)  # so that the next run begins at the first step


if __name__ == "__main__":
    main()

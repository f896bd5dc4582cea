"""Single program, multiple data (SPMD): every process feeds its share of a batch, and XLA inserts the all-reduce."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS = 200
BATCH = 240  # points per batch, summed over all processes


def make_data(count, seed):
    """Return points scattered around ten centres, and the index of each point's centre."""
    centres = np.random.default_rng(0).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    points = centres[labels] + 0.8 * random.normal(size=(count, 16))
    return points.astype(np.float32), labels.astype(np.int32)


def make_weights():
    """Return the weights of two layers, the same in every process."""
    random = np.random.default_rng(7)
    shapes = (16, 64), (64, 10)
    return [(random.normal(size=shape) / shape[0] ** 0.5).astype(np.float32) for shape in shapes]


def loss_of(weights, points, labels):
    """Return the mean cross entropy of the network's predictions."""
    first, second = weights
    guesses = jax.nn.log_softmax(jax.nn.relu(points @ first) @ second)
    return -jnp.mean(jnp.take_along_axis(guesses, labels[:, None], axis=1))


@jax.jit
def step(weights, points, labels):
    """Do one gradient step. The sharding of the arguments over the mesh decides which process computes what."""
    loss, slopes = jax.value_and_grad(loss_of)(weights, points, labels)
    return [weight - 0.5 * slope for weight, slope in zip(weights, slopes, strict=True)], loss


def main():
    """Train on a share of the data set, and fail unless the model has learned to classify the points."""
    coordinator = f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}"
    rank, world = int(os.environ["PROCESS_ID"]), int(os.environ["NUM_PROCESSES"])
    print(f"process {rank} of {world} connects to {coordinator}")
    jax.distributed.initialize(coordinator, num_processes=world, process_id=rank)
    print(f"process {jax.process_index()} has {jax.device_count()} devices, {jax.local_device_count()} of them local")

    mesh = Mesh(np.array(jax.devices()), ("data",))
    everywhere = NamedSharding(mesh, PartitionSpec())  # a copy on every device
    in_shares = NamedSharding(mesh, PartitionSpec("data"))  # split along the first axis
    weights = [jax.make_array_from_process_local_data(everywhere, weight) for weight in make_weights()]

    points, labels = (part[rank::world] for part in make_data(6000, seed=1))  # the share of this process
    print(f"process {rank} trains on {len(points)} of 6000 points")
    random = np.random.default_rng(rank)
    for number in range(1, STEPS + 1):
        mine = random.choice(len(points), BATCH // world, replace=False)
        batch = [jax.make_array_from_process_local_data(in_shares, part[mine]) for part in (points, labels)]
        weights, loss = step(weights, *batch)
        if number % 20 == 0:
            print(f"step {number}: loss {loss:.6f}")

    # Every process evaluates its own copy of the model without communication: equal results mean equal weights.
    first, second = (np.asarray(weight) for weight in weights)
    points, labels = make_data(1000, seed=2)
    accuracy = np.mean((np.maximum(points @ first, 0) @ second).argmax(axis=1) == labels)
    print(f"final loss {loss_of((first, second), points, labels):.6f}, accuracy on new points {accuracy:.3f}")
    jax.distributed.shutdown()
    assert accuracy > 0.9, "the model did not learn"


if __name__ == "__main__":
    main()

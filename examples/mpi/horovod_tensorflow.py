"""Data-parallel training with Horovod: each rank computes the gradients of its share, and Horovod averages them."""

import socket

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

EPOCHS = 10
BATCH = 100  # points per rank

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
hvd.init()
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.SGD(learning_rate=0.2)


def make_data(count, seed):
    """Return points scattered around ten centres, and the index of each point's centre."""
    centres = np.random.default_rng(0).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    points = centres[labels] + 0.8 * random.normal(size=(count, 16))
    return points.astype(np.float32), labels


def build_model():
    """Return a classifier. Each rank starts with other weights, so without Horovod the copies would stay different."""
    tf.keras.utils.set_random_seed(hvd.rank())
    layers = [tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)]
    return tf.keras.Sequential([tf.keras.Input((16,)), *layers])


@tf.function
def train_step(model, points, labels):
    """Take a step along the mean of all ranks' gradients; return the loss of this rank's batch."""
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(points, training=True))
    gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


def main():
    """Train on a share of the data set, compare the copies, and fail unless the model has learned to classify."""
    carrier = "MPI" if hvd.mpi_enabled() else "Gloo"
    print(f"rank {hvd.rank()} of {hvd.size()} runs on {socket.gethostname()}, connected by {carrier}", flush=True)
    points, labels = (part[hvd.rank() :: hvd.size()] for part in make_data(6000, seed=1))
    random = np.random.default_rng(7)
    model = build_model()
    hvd.broadcast_variables(model.variables, root_rank=0)
    for epoch in range(1, EPOCHS + 1):
        order = random.permutation(len(labels))
        losses = [train_step(model, points[batch], labels[batch]) for batch in np.split(order, len(order) // BATCH)]
        loss = hvd.allreduce(tf.reduce_mean(losses), name="loss")
        if hvd.rank() == 0:
            print(f"epoch {epoch}: loss {loss:.6f}", flush=True)

    # Every rank computes the loss of its own copy: equal ones mean that all ranks took the same steps.
    points, labels = make_data(1000, seed=2)
    scores = model(points)
    final = f"{loss_of(labels, scores):.8f}"
    print(f"rank {hvd.rank()}: final loss {final}", flush=True)
    finals = hvd.allgather_object(final)
    places = hvd.allgather_object(socket.gethostname())
    accuracy = np.mean(np.argmax(scores, axis=1) == labels)
    if hvd.rank() == 0:
        assert len(set(finals)) == 1, f"the copies differ: {finals}"
        print(f"{hvd.size()} ranks on {len(set(places))} pods agree on the loss {finals[0]}")
        print(f"accuracy on new points {accuracy:.3f}", flush=True)
    assert accuracy > 0.9, "the model did not learn"


if __name__ == "__main__":
    main()

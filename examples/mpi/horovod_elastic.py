"""Elastic training with Horovod: if a worker is lost, the others go on; its replacement joins them."""

import socket
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

EPOCHS = 120
BATCH = 100  # points per rank
PAUSE = 1.0  # seconds per epoch, which leaves time to delete a pod

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
hvd.init()
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.SGD(learning_rate=0.05)


def make_data(count, seed):
    """Return points scattered around ten centres, and the index of each point's centre."""
    centres = np.random.default_rng(0).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    points = centres[labels] + 0.8 * random.normal(size=(count, 16))
    return points.astype(np.float32), labels


def build_model():
    """Return a classifier, and let the optimizer create its variables: both belong to the state that ranks share."""
    layers = [tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)]
    model = tf.keras.Sequential([tf.keras.Input((16,)), *layers])
    optimizer.build(model.trainable_variables)
    return model


@tf.function
def train_step(model, points, labels):
    """Take a step along the mean of all ranks' gradients; return the loss of this rank's batch."""
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(points, training=True))
    gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@hvd.elastic.run
def train(state):
    """Train from the saved epoch on; Horovod calls this again when a rank is lost or joins."""
    print(f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()} begins with epoch {state.epoch}", flush=True)
    points, labels = (part[hvd.rank() :: hvd.size()] for part in make_data(6000, seed=1))
    while state.epoch <= EPOCHS:
        order = np.random.default_rng(state.epoch).permutation(len(labels))
        batches = np.split(order, len(order) // BATCH)
        losses = [train_step(state.model, points[batch], labels[batch]) for batch in batches]
        loss = hvd.allreduce(tf.reduce_mean(losses), name="loss")
        if hvd.rank() == 0:
            print(f"epoch {state.epoch}: loss {loss:.6f}, ranks {hvd.size()}", flush=True)
        time.sleep(PAUSE)
        state.epoch += 1
        state.commit()


def main():
    """Train until the last epoch, compare the copies, and fail unless the model has learned to classify."""
    state = hvd.elastic.TensorFlowKerasState(build_model(), optimizer, epoch=1)
    train(state)
    points, labels = make_data(1000, seed=2)
    scores = state.model(points)
    print(f"rank {hvd.rank()}: final loss {loss_of(labels, scores):.8f}", flush=True)
    accuracy = np.mean(np.argmax(scores, axis=1) == labels)
    assert accuracy > 0.9, "the model did not learn"


if __name__ == "__main__":
    main()

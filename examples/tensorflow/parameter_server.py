"""Asynchronous training with parameter servers: a chief schedules steps, workers execute them, servers hold the model.

All pods run the same script; TF_CONFIG contains the role. The evaluator evaluates each checkpoint meanwhile.
"""

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

ROUNDS, STEPS = 4, 250  # the chief saves a checkpoint after each round of STEPS steps
FOLDER = Path(os.environ["CHECKPOINT_DIR"])  # on a volume shared by chief, servers (each writes its part) and evaluator
ACCURACY = FOLDER / "accuracy"


class Model(tf.Module):
    """A small network and its step counter."""

    def __init__(self):
        random = tf.random.Generator.from_seed(0)
        self.hidden_weights = tf.Variable(0.2 * random.normal([16, 64]))
        self.hidden_bias = tf.Variable(tf.zeros([64]))
        self.weights = tf.Variable(0.2 * random.normal([64, 10]))
        self.bias = tf.Variable(tf.zeros([10]))
        self.rounds = tf.Variable(0, trainable=False)

    def __call__(self, points):
        """Return the score of each of the ten centres, for each point."""
        return tf.nn.relu(points @ self.hidden_weights + self.hidden_bias) @ self.weights + self.bias

    def loss(self, points, labels):
        """Return the mean cross-entropy of the model's predictions."""
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self(points)))


def make_data(count, seed):
    """Return points scattered around ten centres, and the index of each point's centre."""
    centres = np.random.default_rng(seed=0).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    points = centres[labels] + 0.8 * random.normal(size=(count, 16))
    return points.astype("float32"), labels


def batches():
    """Return the training data, repeated endlessly; every worker shuffles it differently."""
    return tf.data.Dataset.from_tensor_slices(make_data(4000, seed=1)).shuffle(4000).repeat().batch(50)


def read_cluster():
    """Return the cluster of TF_CONFIG without the evaluator: the chief would wait for it indefinitely."""
    config = json.loads(os.environ["TF_CONFIG"])
    cluster = {role: hosts for role, hosts in config["cluster"].items() if role != "evaluator"}
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster),
        task_type=config["task"]["type"],
        task_id=config["task"]["index"],
        rpc_layer="grpc",
    )


def serve(resolver):
    """Run a worker or a parameter server, which serves the chief until the operator deletes its pod."""
    task = (resolver.task_type, resolver.task_id)
    server = tf.distribute.Server(resolver.cluster_spec(), *task, protocol="grpc")
    print("{} {} serves".format(*task))
    server.join()


def train(resolver):
    """Run the chief: schedule steps, save the model after each round, and fail unless the evaluator reports success."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)  # waits for workers and servers
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Model()
    checkpoints = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), FOLDER, max_to_keep=3)
    if checkpoints.restore_or_initialize():  # the chief was restarted
        print(f"resumed after round {model.rounds.numpy()}")
    ACCURACY.unlink(missing_ok=True)

    @tf.function
    def step(iterator):
        points, labels = next(iterator)
        with tf.GradientTape() as tape:
            loss = model.loss(points, labels)
        weights = model.trainable_variables
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.03 * gradient)  # immediately, independently of the other workers
        return loss

    data = iter(coordinator.create_per_worker_dataset(batches))
    while model.rounds.numpy() < ROUNDS:
        losses = [coordinator.schedule(step, args=(data,)) for _ in range(STEPS)]
        coordinator.join()  # waits until the workers have done all steps
        model.rounds.assign_add(1)
        print(f"round {model.rounds.numpy()}: loss {np.mean(coordinator.fetch(losses)):.4f}")
        checkpoints.save()

    while not ACCURACY.exists():
        time.sleep(0.2)
    accuracy = float(ACCURACY.read_text())
    print(f"the evaluator found an accuracy of {accuracy:.3f}")
    assert accuracy > 0.9, "the model did not learn"
    shutil.rmtree(FOLDER)  # so that the next run of this example starts from scratch


def evaluate():
    """Run the evaluator: evaluate every new checkpoint on points that are not in the training data."""
    model = Model()
    points, labels = make_data(1000, seed=2)
    for path in tf.train.checkpoints_iterator(FOLDER):
        tf.train.Checkpoint(model=model).restore(path).expect_partial()
        accuracy = np.mean(np.argmax(model(points), axis=1) == labels)
        print(f"after round {model.rounds.numpy()}: accuracy {accuracy:.3f}")
        if model.rounds.numpy() == ROUNDS:
            ACCURACY.with_suffix(".draft").write_text(f"{accuracy}")
            ACCURACY.with_suffix(".draft").rename(ACCURACY)
            return


def main():
    """Run the role that TF_CONFIG assigns to this pod."""
    resolver = read_cluster()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if resolver.task_type in ("worker", "ps"):
        serve(resolver)
    elif resolver.task_type == "evaluator":
        evaluate()
    else:
        train(resolver)


if __name__ == "__main__":
    main()

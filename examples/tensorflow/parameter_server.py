"""Asynchronous training with parameter servers: a chief hands out steps, workers do them, servers hold the model.

One script for all pods; TF_CONFIG says which one this is. The evaluator judges each checkpoint meanwhile.
"""

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

ROUNDS, STEPS = 4, 250  # a checkpoint after each round of so many steps
FOLDER = Path(os.environ["CHECKPOINT_DIR"])  # on a volume shared by chief, servers (each writes its part) and evaluator
VERDICT = FOLDER / "accuracy"


class Model(tf.Module):
    """A small network, and how often it has been trained."""

    def __init__(self):
        random = tf.random.Generator.from_seed(0)
        self.hidden_weights = tf.Variable(0.2 * random.normal([16, 64]))
        self.hidden_bias = tf.Variable(tf.zeros([64]))
        self.weights = tf.Variable(0.2 * random.normal([64, 10]))
        self.bias = tf.Variable(tf.zeros([10]))
        self.rounds = tf.Variable(0, trainable=False)

    def __call__(self, points):
        """The score of each of the ten centres, for each point."""
        return tf.nn.relu(points @ self.hidden_weights + self.hidden_bias) @ self.weights + self.bias

    def loss(self, points, labels):
        """The mean cross-entropy of the model's guesses."""
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self(points)))


def make_data(count, seed):
    """Points scattered around ten centres, and the number of the centre that each belongs to."""
    centres = np.random.default_rng(seed=0).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    points = centres[labels] + 0.8 * random.normal(size=(count, 16))
    return points.astype("float32"), labels


def batches():
    """The training data without end; every worker shuffles it in its own way."""
    return tf.data.Dataset.from_tensor_slices(make_data(4000, seed=1)).shuffle(4000).repeat().batch(50)


def read_cluster():
    """The cluster of TF_CONFIG without the evaluator: it is named there, but the chief would wait for it in vain."""
    config = json.loads(os.environ["TF_CONFIG"])
    cluster = {role: hosts for role, hosts in config["cluster"].items() if role != "evaluator"}
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster),
        task_type=config["task"]["type"],
        task_id=config["task"]["index"],
        rpc_layer="grpc",
    )


def serve(resolver):
    """A worker or a parameter server does what the chief asks for, for ever: the operator stops it after the end."""
    task = (resolver.task_type, resolver.task_id)
    server = tf.distribute.Server(resolver.cluster_spec(), *task, protocol="grpc")
    print("{} {} serves".format(*task))
    server.join()


def train(resolver):
    """The chief: hand out steps, save the model after each round, and fail unless the evaluator is content."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)  # waits for workers and servers
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Model()
    checkpoints = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), FOLDER, max_to_keep=3)
    if checkpoints.restore_or_initialize():  # this chief has been restarted
        print(f"resumed after round {model.rounds.numpy()}")
    VERDICT.unlink(missing_ok=True)

    @tf.function
    def step(iterator):
        points, labels = next(iterator)
        with tf.GradientTape() as tape:
            loss = model.loss(points, labels)
        weights = model.trainable_variables
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.03 * gradient)  # at once, whatever the other workers do
        return loss

    data = iter(coordinator.create_per_worker_dataset(batches))
    while model.rounds.numpy() < ROUNDS:
        losses = [coordinator.schedule(step, args=(data,)) for _ in range(STEPS)]
        coordinator.join()  # until the workers have done them all
        model.rounds.assign_add(1)
        print(f"round {model.rounds.numpy()}: loss {np.mean(coordinator.fetch(losses)):.4f}")
        checkpoints.save()

    while not VERDICT.exists():
        time.sleep(0.2)
    accuracy = float(VERDICT.read_text())
    print(f"the evaluator found an accuracy of {accuracy:.3f}")
    assert accuracy > 0.9, "the model did not learn"
    shutil.rmtree(FOLDER)  # so that the next run of this example begins anew


def evaluate():
    """The evaluator: judge every new checkpoint on points that the training has not seen."""
    model = Model()
    points, labels = make_data(1000, seed=2)
    for path in tf.train.checkpoints_iterator(FOLDER):
        tf.train.Checkpoint(model=model).restore(path).expect_partial()
        accuracy = np.mean(np.argmax(model(points), axis=1) == labels)
        print(f"after round {model.rounds.numpy()}: accuracy {accuracy:.3f}")
        if model.rounds.numpy() == ROUNDS:
            VERDICT.with_suffix(".draft").write_text(f"{accuracy}")
            VERDICT.with_suffix(".draft").rename(VERDICT)
            return


def main():
    """Play the role that TF_CONFIG gives to this pod."""
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

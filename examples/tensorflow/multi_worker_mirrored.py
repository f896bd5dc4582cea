"""Synchronous training on several workers: one model in as many copies, kept equal by an all-reduce at every step.

Keras' `model.fit` does not support this strategy since Keras 3; a loop of one's own does, and is short.
"""

import json
import os

import numpy as np
import tensorflow as tf

EPOCHS = 8


def make_data(count, seed):
    """Points scattered around ten centres, and the number of the centre that each belongs to."""
    centres = np.random.default_rng(seed=0).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    points = centres[labels] + 0.8 * random.normal(size=(count, 16))
    return points.astype("float32"), labels


def shard(context):
    """This worker's part of the data: every n-th point, where n is the number of workers."""
    data = tf.data.Dataset.from_tensor_slices(make_data(4000, seed=1))
    return data.shard(context.num_input_pipelines, context.input_pipeline_id).shuffle(2000).batch(50)


def loss_of(model, points, labels):
    """The mean cross-entropy of the model's guesses."""
    return tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, model(points), from_logits=True))


def make_step(strategy, model, optimizer):
    """One training step on all workers at once; it returns the mean of their losses."""

    def learn(points, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(model, points, labels)
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))  # the all-reduce is in here
        return loss

    @tf.function
    def step(points, labels):
        return strategy.reduce("MEAN", strategy.run(learn, args=(points, labels)), axis=None)

    return step


def main():
    """Train in step with the other workers, and fail unless the model tells the centres apart."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # waits for all the workers that TF_CONFIG names
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print(f"{task['type']} {task['index']} of {strategy.num_replicas_in_sync} is ready")
    with strategy.scope():  # variables made in here are mirrored
        model = tf.keras.Sequential(
            [tf.keras.Input([16]), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)]
        )
        optimizer = tf.keras.optimizers.Adam(0.003)
    data = strategy.distribute_datasets_from_function(shard)
    step = make_step(strategy, model, optimizer)

    for epoch in range(1, EPOCHS + 1):
        losses = [step(*batch).numpy() for batch in data]
        print(f"epoch {epoch}: loss {np.mean(losses):.6f}")

    # Every worker judges its own copy of the model, without asking the others: equal figures mean equal weights.
    points, labels = make_data(1000, seed=2)
    accuracy = np.mean(np.argmax(model(points), axis=1) == labels)
    print(f"final loss {loss_of(model, points, labels):.6f}, accuracy on new points {accuracy:.3f}")
    assert accuracy > 0.9, "the model did not learn"


if __name__ == "__main__":
    main()

"""Synchronous training on several workers: one copy of the model each, kept equal by an all-reduce at every step.

Since Keras 3, `model.fit` does not support this strategy, so the training loop is written out.
"""

import json
import os

import numpy as np
import tensorflow as tf

EPOCHS = 8


def make_data(count, seed):
    """Return points scattered around ten centres, and the index of each point's centre."""
    centres = np.random.default_rng(seed=0).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    points = centres[labels] + 0.8 * random.normal(size=(count, 16))
    return points.astype("float32"), labels


def shard(context):
    """Return this worker's part of the data: every n-th point, where n is the number of workers."""
    data = tf.data.Dataset.from_tensor_slices(make_data(4000, seed=1))
    return data.shard(context.num_input_pipelines, context.input_pipeline_id).shuffle(2000).batch(50)


def loss_of(model, points, labels):
    """Return the mean cross-entropy of the model's predictions."""
    return tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, model(points), from_logits=True))


def make_step(strategy, model, optimizer):
    """Do one training step on all workers; return the mean of their losses."""

    def learn(points, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(model, points, labels)
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))  # includes the all-reduce
        return loss

    @tf.function
    def step(points, labels):
        return strategy.reduce("MEAN", strategy.run(learn, args=(points, labels)), axis=None)

    return step


def main():
    """Train in step with the other workers, and fail unless the model has learned to classify."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # waits for all the workers that TF_CONFIG names
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print(f"{task['type']} {task['index']} of {strategy.num_replicas_in_sync} is ready")
    with strategy.scope():  # variables created in this scope are mirrored
        model = tf.keras.Sequential(
            [tf.keras.Input([16]), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)]
        )
        optimizer = tf.keras.optimizers.Adam(0.003)
    data = strategy.distribute_datasets_from_function(shard)
    step = make_step(strategy, model, optimizer)

    for epoch in range(1, EPOCHS + 1):
        losses = [step(*batch).numpy() for batch in data]
        print(f"epoch {epoch}: loss {np.mean(losses):.6f}")

    # Every worker evaluates its own copy of the model without communication: equal results mean equal weights.
    points, labels = make_data(1000, seed=2)
    accuracy = np.mean(np.argmax(model(points), axis=1) == labels)
    print(f"final loss {loss_of(model, points, labels):.6f}, accuracy on new points {accuracy:.3f}")
    assert accuracy > 0.9, "the model did not learn"


if __name__ == "__main__":
    main()

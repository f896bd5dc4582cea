"""One model on two machines: each learns from its own share of the data, and both stay equal."""

import numpy as np
import tensorflow as tf

# TF_CONFIG is in the environment: who the workers are, and which of them this one is. The strategy reads it.
strategy = tf.distribute.MultiWorkerMirroredStrategy()
me = strategy.cluster_resolver.task_id
print(f"worker {me}: {strategy.num_replicas_in_sync} workers are training together")


def my_share(_context):
    """Points scattered around ten centres, and the number of the centre of each. Every worker draws other points."""
    centres = np.random.default_rng(seed=0).normal(size=(10, 16))
    random = np.random.default_rng(seed=1 + me)
    labels = random.integers(10, size=2000)
    points = centres[labels] + 0.8 * random.normal(size=(2000, 16))
    return tf.data.Dataset.from_tensor_slices((points.astype("float32"), labels)).batch(50)


with strategy.scope():  # what is made in here is kept equal on all workers
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([tf.keras.Input([16]), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)])
    optimizer = tf.keras.optimizers.Adam(0.003)
data = strategy.distribute_datasets_from_function(my_share)


def learn(points, labels):
    """One step on one worker; to apply the gradients is to add up those of all."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, model(points), from_logits=True))
    weights = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


@tf.function
def step(batch):
    """One step on all workers, and the mean of their losses."""
    return strategy.reduce("MEAN", strategy.run(learn, args=batch), axis=None)


for epoch in range(1, 11):
    losses = [step(batch).numpy() for batch in data]
    print(f"epoch {epoch}: loss {np.mean(losses):.4f}")
print(f"worker {me} is done")
assert np.mean(losses) < 0.2, "the model did not learn"

"""One model on two machines: each trains on its own share of the data, and both copies stay equal."""

import numpy as np
import tensorflow as tf

# The operator sets TF_CONFIG: the addresses of the workers, and the index of this one. The strategy reads it.
strategy = tf.distribute.MultiWorkerMirroredStrategy()
me = strategy.cluster_resolver.task_id
print(f"worker {me}: {strategy.num_replicas_in_sync} workers are training together")


def my_share(_context):
    """Return random points around ten centres, and the index of each point's centre, different for every worker."""
    centres = np.random.default_rng(seed=0).normal(size=(10, 16))
    random = np.random.default_rng(seed=1 + me)
    labels = random.integers(10, size=2000)
    points = centres[labels] + 0.8 * random.normal(size=(2000, 16))
    return tf.data.Dataset.from_tensor_slices((points.astype("float32"), labels)).batch(50)


with strategy.scope():  # variables created in this scope are kept equal on all workers
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([tf.keras.Input([16]), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)])
    optimizer = tf.keras.optimizers.Adam(0.003)
data = strategy.distribute_datasets_from_function(my_share)


def learn(points, labels):
    """Do one step on one worker; `apply_gradients` adds up the gradients of all workers."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, model(points), from_logits=True))
    weights = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


@tf.function
def step(batch):
    """Do one step on all workers; return the mean of their losses."""
    return strategy.reduce("MEAN", strategy.run(learn, args=batch), axis=None)


for epoch in range(1, 11):
    losses = [step(batch).numpy() for batch in data]
    print(f"epoch {epoch}: loss {np.mean(losses):.4f}")
print(f"worker {me} is done")
assert np.mean(losses) < 0.2, "the model did not learn"

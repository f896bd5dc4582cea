"""One run of a sweep: train a small network in one pod, with the learning rate from the environment."""

import os

import numpy as np
import tensorflow as tf

EPOCHS = 10
RATE = float(os.environ["LEARNING_RATE"])


def make_data(count, seed):
    """Return points scattered around ten centres, and the index of each point's centre."""
    centres = np.random.default_rng(seed=0).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    points = centres[labels] + 0.8 * random.normal(size=(count, 16))
    return points.astype("float32"), labels


def main():
    """Train, print one line to compare with the other runs, and fail unless the loss has decreased."""
    assert "TF_CONFIG" not in os.environ, "a job of one pod has no peers, so the operator sets no TF_CONFIG"
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([tf.keras.Input([16]), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(10)])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(RATE), loss, metrics=["accuracy"])

    before, _ = model.evaluate(*make_data(1000, seed=2), verbose=0)
    model.fit(*make_data(4000, seed=1), batch_size=50, epochs=EPOCHS, verbose=2)
    after, accuracy = model.evaluate(*make_data(1000, seed=2), verbose=0)
    print(f"learning rate {RATE}: loss {before:.4f} before and {after:.4f} after, accuracy {accuracy:.3f}")
    assert after < before, "the model did not learn"


if __name__ == "__main__":
    main()

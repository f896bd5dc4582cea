"""The classic distributed TensorFlow job in TF 1 style: a chief, workers, parameter servers.

Chief and workers each build a copy of the same graph (between-graph replication). The variables live on the parameter
servers, shared by their names, and each process updates them without waiting for the others.
"""

import json
import os
import time

import numpy as np
import tensorflow.compat.v1 as tf

STEPS = 3000  # sum over chief and workers


def make_data(count, seed):
    """Return points scattered around ten centres, and the index of each point's centre."""
    centres = np.random.default_rng(seed=0).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    labels = random.integers(10, size=count)
    points = centres[labels] + 0.8 * random.normal(size=(count, 16))
    return points.astype("float32"), labels


def build():
    """Build a small network with placeholders: return (points, labels, loss, hits, train)."""
    points = tf.placeholder(tf.float32, [None, 16])
    labels = tf.placeholder(tf.int64, [None])
    hidden_weights = tf.get_variable("hidden/weights", [16, 64])
    hidden_bias = tf.get_variable("hidden/bias", [64], initializer=tf.zeros_initializer())
    weights = tf.get_variable("output/weights", [64, 10])
    bias = tf.get_variable("output/bias", [10], initializer=tf.zeros_initializer())
    scores = tf.nn.relu(points @ hidden_weights + hidden_bias) @ weights + bias
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores))
    hits = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, axis=1), labels), tf.float32))
    train = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=tf.train.get_or_create_global_step())
    return points, labels, loss, hits, train


def wait_for_the_chief(server, filters):
    """Wait until the variables are initialised. MonitoredTrainingSession does so too, but checks only every 30 s."""
    missing = tf.report_uninitialized_variables()
    while True:
        with tf.Session(server.target, config=filters) as session:
            if not session.run(missing).size:
                return
        time.sleep(0.5)


def train_on(server, task, filters):
    """Train until chief and workers together have done all steps; return the values for an evaluation."""
    is_chief = task["type"] == "chief"
    points, labels, loss, hits, train = build()
    if not is_chief:
        wait_for_the_chief(server, filters)
    all_points, all_labels = make_data(4000, seed=1)
    random, mine, step = np.random.default_rng(), 0, 0
    hooks = [tf.train.StopAtStepHook(last_step=STEPS)]
    with tf.train.MonitoredTrainingSession(
        server.target, is_chief, hooks=hooks, config=None if is_chief else filters, summary_dir=None
    ) as session:
        print(f"{task['type']} {task['index']} begins")
        while not session.should_stop():
            batch = random.integers(len(all_points), size=50)
            feed = {points: all_points[batch], labels: all_labels[batch]}
            _, value, step = session.run([train, loss, tf.train.get_global_step()], feed)
            mine += 1
            if mine % 200 == 0:
                print(f"step {step}: loss {value:.4f}")
    print(f"{task['type']} {task['index']} is done: ran {mine} of {STEPS} steps")
    return points, labels, hits


def main():
    """Run the role that TF_CONFIG assigns to this pod."""
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = tf.train.ClusterSpec(config["cluster"]), config["task"]
    server = tf.train.Server(cluster, job_name=task["type"], task_index=task["index"])
    if task["type"] == "ps":
        print(f"ps {task['index']} serves")
        server.join()  # never returns: the operator deletes the pod when the job has finished
    tf.disable_eager_execution()
    me = f"/job:{task['type']}/task:{task['index']}"
    filters = tf.ConfigProto(device_filters=["/job:ps", me])  # ignore other workers, which may have exited already
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=me)):
        points, labels, hits = train_on(server, task, filters)
    if task["type"] == "chief":
        new_points, new_labels = make_data(1000, seed=2)
        with tf.Session(server.target, config=filters) as session:  # the variables are still on the servers
            accuracy = session.run(hits, {points: new_points, labels: new_labels})
        print(f"accuracy on new points {accuracy:.3f}")
        assert accuracy > 0.9, "the model did not learn"


if __name__ == "__main__":
    main()

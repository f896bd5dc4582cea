"""TF_CONFIG, byte for byte as in v1, and TensorFlow's rules for restarts and success."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import a_job, replace
from trainshed.api.framework import JobDefaults, PodNames
from trainshed.api.job import Replica, RestartScope
from trainshed.api.validation import MAX_VARIABLE_BYTES
from trainshed.frameworks import tensorflow
from trainshed.frameworks.tensorflow import CLUSTER, LITERAL_UP_TO, TENSORFLOW, TFJobOptions

MNIST = a_job(chief=1, ps=2, worker=2, evaluator=1)
DYNAMIC = TFJobOptions(dynamic_workers=True)


def config(job, role, index, job_defaults=None):
    """The value of TF_CONFIG, or None."""
    variables = TENSORFLOW.hooks.environment(job, job_defaults or JobDefaults())(Replica(role, index))
    return next((variable.value for variable in variables if variable.name == "TF_CONFIG"), None)


def test_tf_config_names_every_member_and_oneself():
    assert config(MNIST, "Worker", 1) == (
        '{"cluster":{"chief":["mnist-chief-0.ml.svc:2222"],"evaluator":["mnist-evaluator-0.ml.svc:2222"],'
        '"ps":["mnist-ps-0.ml.svc:2222","mnist-ps-1.ml.svc:2222"],'
        '"worker":["mnist-worker-0.ml.svc:2222","mnist-worker-1.ml.svc:2222"]},'
        '"task":{"type":"worker","index":1},"environment":"cloud"}'
    )


def test_a_domain_of_the_cluster_ends_each_host():
    job = a_job(name="test-tfjob", worker=1, ps=1)
    assert json.loads(config(job, "Worker", 0, JobDefaults(cluster_domain="tf.training.org")))["cluster"] == {
        "ps": ["test-tfjob-ps-0.ml.svc.tf.training.org:2222"],
        "worker": ["test-tfjob-worker-0.ml.svc.tf.training.org:2222"],
    }


@pytest.mark.parametrize(
    ("job", "there"),
    [(a_job(worker=1), False), (a_job(worker=1, ps=0), False), (a_job(ps=1), False), (a_job(worker=1, ps=1), True)],
)
def test_a_single_pod_needs_to_know_nobody(job, there):
    assert (config(job, job.groups[0].role, 0) is not None) is there


def test_each_role_has_its_own_port():
    groups = tuple(replace(group, port=3333) if group.role == "PS" else group for group in MNIST.groups)
    cluster = json.loads(config(replace(MNIST, groups=groups), "Worker", 0))["cluster"]
    assert cluster["ps"][0].endswith(":3333")
    assert cluster["worker"][0].endswith(":2222")


@pytest.mark.parametrize(
    ("role", "index", "cluster"),
    [
        (
            "Worker",
            1,
            '{"worker":{"1":"mnist-worker-1.ml.svc:2222"},"ps":["mnist-ps-0.ml.svc:2222","mnist-ps-1.ml.svc:2222"]}',
        ),
        ("PS", 0, '{"worker":{},"ps":["mnist-ps-0.ml.svc:2222"]}'),
        ("Chief", 0, '{"worker":{},"ps":[]}'),
    ],
)
def test_members_of_a_dynamic_cluster_know_only_whom_they_need(role, index, cluster):
    job = a_job(chief=1, ps=2, worker=2, options=DYNAMIC)
    task = f'{{"type":"{role.lower()}","index":{index}}}'
    assert config(job, role, index) == f'{{"cluster":{cluster},"task":{task}}}'


def test_the_config_of_a_dynamic_worker_without_servers_has_none():
    assert '"ps":null' in config(a_job(worker=2, options=DYNAMIC), "Worker", 0)


@pytest.mark.fault("J10")
def test_a_big_job_shares_one_text_which_expands_to_the_same():
    job = a_job(worker=LITERAL_UP_TO + 1)
    (shared,) = TENSORFLOW.hooks.dependents(job, JobDefaults(), PodNames())
    reference, whole = TENSORFLOW.hooks.environment(job, JobDefaults())(Replica("Worker", 3))
    assert reference.source == {"configMapKeyRef": {"name": shared.name, "key": CLUSTER}}
    expanded = json.loads(whole.value.replace(f"$({CLUSTER})", shared.content["data"][CLUSTER]))
    assert expanded["task"] == {"type": "worker", "index": 3}
    assert len(expanded["cluster"]["worker"]) == LITERAL_UP_TO + 1
    assert TENSORFLOW.hooks.dependents(a_job(worker=LITERAL_UP_TO), JobDefaults(), PodNames()) == ()
    (bigger,) = TENSORFLOW.hooks.dependents(a_job(worker=LITERAL_UP_TO + 2), JobDefaults(), PodNames())
    assert bigger.name != shared.name
    assert shared.name.startswith("mnist-cluster-")


@pytest.mark.fault("J10")
def test_a_variable_that_the_kernel_would_refuse_is_refused_with_the_figures():
    (problem,) = TENSORFLOW.hooks.validate(a_job(worker=5000), JobDefaults())
    assert "5000 replicas" in problem
    assert str(MAX_VARIABLE_BYTES) in problem
    assert TENSORFLOW.hooks.validate(a_job(worker=1000), JobDefaults()) == ()
    assert TENSORFLOW.hooks.validate(a_job(worker=5000, options=DYNAMIC), JobDefaults()) == ()


@given(st.dictionaries(st.sampled_from(["chief", "ps", "worker", "evaluator"]), st.integers(0, 1200), min_size=1))
def test_the_length_of_the_addresses_is_known_without_writing_them_down(roles):
    job = a_job(**roles)
    for job_defaults in (JobDefaults(), JobDefaults(cluster_domain="tf.test")):
        assert tensorflow.cluster_length(job, job_defaults) == len(tensorflow.cluster(job, job_defaults))


def test_the_limit_is_met_to_the_byte_by_the_longest_of_all_roles():
    replicas = next(
        count
        for count in range(2000, 5000)
        if TENSORFLOW.hooks.validate(a_job(worker=count, evaluator=1), JobDefaults())
    )
    for count, fits in ((replicas - 1, True), (replicas, False)):
        job = a_job(worker=count, evaluator=1)
        texts = (tensorflow.config(tensorflow.cluster(job, JobDefaults()), replica) for replica in job.all_replicas)
        assert (max(map(len, texts)) + len("TF_CONFIG=") + 1 <= MAX_VARIABLE_BYTES) == fits


def test_jobs_that_are_refused_for_their_size_take_no_memory():
    tracemalloc.start()
    try:
        for number in range(8):
            assert TENSORFLOW.hooks.validate(a_job(name=f"huge-{number}", worker=100_000), JobDefaults())
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_the_longest_config_is_measured_with_its_name_and_end():
    job = a_job(worker=2000)
    (shared,) = TENSORFLOW.hooks.dependents(job, JobDefaults(), PodNames())
    longest = len(config(job, "Worker", 1999).replace(f"$({CLUSTER})", shared.content["data"][CLUSTER]))
    assert (longest + len("TF_CONFIG=") + 1 > MAX_VARIABLE_BYTES) == bool(TENSORFLOW.hooks.validate(job, JobDefaults()))


@pytest.mark.parametrize(
    ("job", "scope"),
    [
        (MNIST, RestartScope.REPLICA),
        (a_job(worker=2), RestartScope.JOB),
        (a_job(worker=2, options=DYNAMIC), RestartScope.REPLICA),
    ],
)
def test_only_parameter_servers_take_a_newcomer_in(job, scope):
    assert TENSORFLOW.hooks.scope(job) is scope


def test_the_chief_leads_or_worker_0():
    leaders = [str(replica) for replica in MNIST.all_replicas if TENSORFLOW.hooks.is_leader(MNIST, replica)]
    assert leaders == ["chief-0"]
    job = a_job(worker=2, ps=1)
    assert [str(replica) for replica in job.all_replicas if TENSORFLOW.hooks.is_leader(job, replica)] == ["worker-0"]


def test_dynamic_workers_may_be_lost():
    assert TENSORFLOW.hooks.optional_roles(a_job(worker=1)) == ()
    assert TENSORFLOW.hooks.optional_roles(a_job(worker=1, options=DYNAMIC)) == ("Worker",)


def test_an_address_of_a_role_that_the_job_lacks_has_the_usual_port():
    assert tensorflow.address(a_job(worker=1), JobDefaults(), Replica("PS", 0)) == "mnist-ps-0.ml.svc:2222"

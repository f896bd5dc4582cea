"""Containers that cannot be created or started: the message has the cause, and names objects that may be missing."""

from __future__ import annotations

import pytest

from support.builders import T0, a_job, a_pod, at, plan_for, printed, running
from trainshed.api.objects import Container

ONE = "1 of 4 replicas is not running: worker-1 on node-a: "
SOURCES = [
    {"name": "code", "configMap": {"name": "settings"}},
    {"name": "scratch", "emptyDir": {}},
    {"name": "key", "secret": {"secretName": "token"}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "images"}},
    {"name": "more", "persistentVolumeClaim": {"claimName": "labels"}},
    {"name": "nonsense", "configMap": {"name": 1}},
    "nonsense",
]


def blocked(job, container, **fields):
    """Return the column BLOCKED a minute after worker-1 got its node."""
    known = {"node": "node-a", "created": T0, "scheduled": at(2), "containers": (container,)} | fields
    others = [a_pod(replica, container="pytorch") for replica in ("master-0", "worker-0", "worker-2")]
    return printed(plan_for(job, *others, a_pod("worker-1", "Pending", **known), status=running(job), now=at(60)))[
        "Blocked"
    ]


@pytest.mark.parametrize(
    ("volumes", "named"),
    [
        (SOURCES[:1], " (ConfigMap settings)"),
        (SOURCES[1:2], ""),
        (SOURCES, " (ConfigMap settings, Secret token, PersistentVolumeClaim images, 1 more)"),
        ("nonsense", ""),
    ],
)
def test_a_volume_that_may_be_missing_is_named(volumes, named):
    spec = {"containers": [{"name": "pytorch", "image": "x"}], "volumes": volumes}
    job = a_job("PyTorchJob", master=1, worker=3, template={"spec": spec})
    assert blocked(job, Container("pytorch", waiting=True, reason="ContainerCreating"), sandbox_ready=False) == (
        f"{ONE}container pytorch is not created: a volume{named} is not mounted, or the pod sandbox is not ready; "
        "`kubectl describe pod mnist-worker-1` shows the Events"
    )


def test_of_a_runtimes_message_the_cause_is_quoted():
    words = "runc create failed: unable to start container process: exec: no such file"
    own = Container("pytorch", waiting=True, reason="RunContainerError", message=words)
    expected = f"{ONE}container pytorch cannot be started (RunContainerError): exec: no such file"
    assert blocked(a_job("PyTorchJob", master=1, worker=3), own) == expected

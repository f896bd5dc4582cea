"""The init containers that the operator adds: what Pod Security, a LimitRange and a quota look at."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from support.builders import FRAMEWORKS
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Replica
from trainshed.plan import builders
from trainshed.plan.init_containers import NON_ROOT, fitted

REPORTED = Path(__file__).parents[2] / "reported"
ADDED = {"name": "added", "image": "kubectl"}
SMALL = {"cpu": "100m", "memory": "64Mi"}


def fit(own=None, added=None, needs=(), **spec):
    """The container that a pod with this spec gets."""
    main = {"name": "main", "image": "train", **(own or {})}
    (found,) = fitted({"containers": [main], **spec}, main, [{**ADDED, **(added or {})}], needs)
    return found


@pytest.mark.parametrize(
    ("own", "pod", "context"),
    [
        ({}, {}, None),
        ({"securityContext": {"capabilities": {"drop": ["ALL"]}}}, {}, {"capabilities": {"drop": ["ALL"]}}),
        ({}, {"runAsNonRoot": True, "runAsUser": 1000}, None),
        ({}, {"runAsNonRoot": True}, {"runAsUser": NON_ROOT}),
        ({"securityContext": {"runAsNonRoot": True}}, {"runAsUser": 7}, {"runAsNonRoot": True}),
        ({"securityContext": {"runAsNonRoot": False}}, {"runAsNonRoot": True}, {"runAsNonRoot": False}),
    ],
)
def test_a_container_is_as_restricted_as_the_frameworks_and_not_root_where_that_is_forbidden(own, pod, context):
    assert fit(own, securityContext=pod).get("securityContext") == context


def test_a_container_from_the_image_of_the_frameworks_keeps_the_user_of_the_image():
    context = {"runAsNonRoot": True}
    assert fit({"securityContext": context}, {"image": "train"})["securityContext"] == context


def test_resources_are_those_of_the_frameworks_or_small_or_as_configured_and_none_where_the_pod_has_its_own():
    theirs = {"limits": {"memory": "1Gi", "nvidia.com/gpu": 8}, "requests": {"cpu": "2"}}
    copied = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "2"}}
    assert fit({"resources": theirs})["resources"] == copied
    assert fit({"resources": theirs}, needs=(("cpu", "5m"),))["resources"]["requests"] == {"cpu": "5m"}
    assert fit({"resources": {"limits": {"nvidia.com/gpu": 8}}})["resources"] == fit()["resources"]
    assert fit()["resources"] == {"limits": SMALL, "requests": SMALL}
    assert fit(needs=(("cpu", "5m"),))["resources"]["limits"] == {"cpu": "5m"}
    assert fit(added={"resources": {}})["resources"] == {}
    assert "resources" not in fit(resources={"limits": {"memory": "32Mi"}})
    same = {"resources": {"limits": {"memory": "16Mi"}}}
    assert fit(same, same, resources={"limits": {"memory": "32Mi"}})["resources"] == same["resources"]


def test_a_name_that_the_pod_has_gets_a_number():
    assert fit(initContainers=[{"name": "added"}, {"name": "added-2"}])["name"] == "added-3"


@pytest.mark.reported("12-restricted-mpi")
def test_the_launcher_of_a_job_that_keeps_the_restricted_standard_keeps_it_too():
    framework, defaults = FRAMEWORKS["MPIJob"], JobDefaults()
    job = parse.job(yaml.safe_load((REPORTED / "12-restricted-mpi.yaml").read_text()), framework, defaults)
    spec = builders.pod_maker(framework, job, defaults)(Replica("Launcher", 0), 0).body["spec"]
    (delivery,) = spec["initContainers"]
    assert delivery["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert delivery["terminationMessagePolicy"] == "FallbackToLogsOnError"

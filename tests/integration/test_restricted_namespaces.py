"""Jobs of all kinds whose templates keep the rules of a namespace: what the operator adds is never refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from support.builders import FRAMEWORKS
from support.jobs import KINDS, job, pod_spec
from support.user_client import MERGE, Refused, UserClient
from trainshed.api import parse
from trainshed.api.framework import Framework, JobDefaults
from trainshed.frameworks.mpi_v2beta1 import MPI_V2BETA1
from trainshed.plan import builders

REPORTED = Path(__file__).parents[1] / "reported"
LIMITED = {"limits": {"cpu": "200m", "memory": "256Mi"}}
UNPRIVILEGED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
POD_CONTEXT = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@dataclass(frozen=True)
class Namespace:
    """Rules of a namespace, and what the user's container and pod need to keep them."""

    labels: dict = field(default_factory=dict)
    objects: dict = field(default_factory=dict)
    container: dict = field(default_factory=dict)
    pod: dict = field(default_factory=dict)


NAMESPACES = {
    "restricted": Namespace(
        labels={"pod-security.kubernetes.io/enforce": "restricted"},
        container={"securityContext": UNPRIVILEGED},
        pod={"securityContext": POD_CONTEXT},
    ),
    "restricted in the container": Namespace(
        labels={"pod-security.kubernetes.io/enforce": "restricted"},
        container={"securityContext": {**UNPRIVILEGED, **POD_CONTEXT}},
    ),
    "limits": Namespace(
        objects={
            "limitranges": {
                "limits": [
                    {
                        "type": "Container",
                        "min": {"cpu": "50m", "memory": "16Mi"},
                        "max": {"cpu": "250m", "memory": "256Mi"},
                    },
                    {"type": "Pod", "max": {"cpu": "250m", "memory": "256Mi"}},
                ]
            }
        },
        container={"resources": LIMITED},
    ),
    "quota": Namespace(
        objects={
            "resourcequotas": {
                "hard": {"limits.cpu": "4", "limits.memory": "4Gi", "requests.cpu": "4", "requests.memory": "4Gi"}
            }
        },
        container={"resources": LIMITED},
    ),
    "resources of the pod": Namespace(pod={"resources": {"limits": {"cpu": "20m", "memory": "32Mi"}}}),
}
#: The kinds, some with the init containers that settings add.
CASES = {
    **{kind: (FRAMEWORKS[kind], JobDefaults()) for kind in KINDS},
    "PyTorchJob with an init container": (FRAMEWORKS["PyTorchJob"], JobDefaults(init_image="alpine")),
    "PyTorchJob with a template": (
        FRAMEWORKS["PyTorchJob"],
        JobDefaults(init_image="alpine", init_template="- name: wait\n  image: {{.InitContainerImage}}\n"),
    ),
    "MPIJob of v2beta1": (MPI_V2BETA1, JobDefaults(gang_scheduler="volcano")),
}


def rendered(framework: Framework, defaults: JobDefaults, document: dict) -> list[dict]:
    """The first pod of each role, as the operator creates it."""
    found = parse.job(document, framework, defaults)
    assert found.problems == ()
    make = builders.pod_maker(framework, found, defaults)
    return [make(next(group.replicas), 0).body for group in found.groups]


def admit(user: UserClient, pod: dict) -> None:
    """Create a pod without storing it; its account need not exist yet."""
    pod["spec"].pop("serviceAccountName", None)
    user.call("POST", f"/api/v1/namespaces/{user.namespace}/pods?dryRun=All", pod)


def prepare(user: UserClient, namespace: Namespace) -> None:
    """Give the user's namespace its rules."""
    user.call("PATCH", f"/api/v1/namespaces/{user.namespace}", {"metadata": {"labels": namespace.labels}}, MERGE)
    for plural, spec in namespace.objects.items():
        user.call("POST", f"/api/v1/namespaces/{user.namespace}/{plural}", {"metadata": {"name": "x"}, "spec": spec})


@pytest.mark.parametrize("name", NAMESPACES)
def test_all_kinds_are_admitted(user: UserClient, name: str):
    namespace = NAMESPACES[name]
    prepare(user, namespace)
    for framework, defaults in CASES.values():
        roles = dict.fromkeys((*KINDS[framework.kind].least, "Worker"), 1)
        document = job(framework.kind, "a", **roles)
        document["metadata"] |= {"namespace": user.namespace, "uid": "7b1b5a3e"}
        for role in roles:
            spec = pod_spec(document, role)
            spec.update(namespace.pod)
            spec["containers"][0].update(namespace.container)
        for pod in rendered(framework, defaults, document):
            admit(user, pod)


def test_the_rules_refuse_a_pod_that_breaks_them(user: UserClient):
    prepare(user, NAMESPACES["restricted"])
    document = job("TFJob", "a", Worker=1)
    document["metadata"] |= {"namespace": user.namespace, "uid": "7b1b5a3e"}
    (pod,) = rendered(FRAMEWORKS["TFJob"], JobDefaults(), document)
    with pytest.raises(Refused, match="violates PodSecurity"):
        admit(user, pod)


@pytest.mark.reported("12-restricted-mpi")
def test_the_reported_job_is_admitted(user: UserClient):
    prepare(user, NAMESPACES["restricted"])
    document = yaml.safe_load((REPORTED / "12-restricted-mpi.yaml").read_text())
    document["metadata"] |= {"namespace": user.namespace, "uid": "7b1b5a3e"}
    for pod in rendered(FRAMEWORKS["MPIJob"], JobDefaults(), document):
        admit(user, pod)

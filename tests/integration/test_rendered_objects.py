"""Whatever the CRDs accept renders objects that the API server accepts, or the job fails with the reason.

Random jobs of all kinds: TRAINSHED_RANDOM_JOBS is their number, TRAINSHED_SEED the first seed. A real API server
validates every object, and stores none.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from support.builders import FRAMEWORKS
from support.jobs import KINDS
from support.user_client import GROUP, UserClient
from trainshed.api import parse
from trainshed.api.actions import CreateDependent, CreatePod, CreateService, Snapshot
from trainshed.api.framework import Framework, JobDefaults, PodNames, child_name
from trainshed.api.job import Job, ServiceForm
from trainshed.api.status import Status
from trainshed.frameworks.mpi_v2beta1 import MPI_V2BETA1
from trainshed.plan import builders, dependents, plan

NUMBER, SEED = int(os.environ.get("TRAINSHED_RANDOM_JOBS", "300")), int(os.environ.get("TRAINSHED_SEED", "1"))
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FRAMEWORK_PORTS = [framework.container.port for framework in FRAMEWORKS.values() if framework.container.port]
PORT_NAMES = ["", "", "http", "grpc", "UPPER", "dns-udp", "tcp-6006", "1a", "sixteen-letters-", "a--b"]
PORT_NAMES += [framework.container.port_name for framework in FRAMEWORKS.values() if framework.container.port]
NAMES = ["a", "mnist", "x" * 50, "a-1", "b" * 54, "1a", "a.b"]
VOLUMES = ["data", "mpi-job-config", "mpi-job-kubectl", "ssh-auth", "kube"]
PATHS = ["/data", "/etc/mpi", "/opt/kube", "/root/.ssh", "/etc/mpi/hostfile"]
CONTAINERS = ["sidecar", "kubectl-delivery", "init-pytorch", "wait-for-workers", "istio-proxy"]
AMOUNTS: list[dict[str, Any]] = [{"cpu": "1"}, {"memory": "64Mi"}, {"cpu": "10m", "memory": "16Mi"}]
AMOUNTS += [{"nvidia.com/gpu": 1}, {"cpu": 2, "ephemeral-storage": "1Gi"}]
SECURITY: list[dict[str, Any]] = [{"runAsNonRoot": True}, {"runAsUser": 0}, {"privileged": True}]
SECURITY += [{"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}]
ROLES = {
    "TFJob": ("Chief", "PS", "Worker", "Evaluator"),
    "PyTorchJob": ("Master", "Worker"),
    "XGBoostJob": ("Master", "Worker"),
    "PaddleJob": ("Master", "Worker"),
    "JAXJob": ("Worker",),
    "MPIJob": ("Launcher", "Worker"),
}
METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}


class Draw(random.Random):
    """Random parts of jobs."""

    def chance(self, percent: int) -> bool:
        """Return True with this chance."""
        return self.random() * 100 < percent

    def ports(self) -> list[dict]:
        """Ports of a container, some repeated."""
        numbers = [53, 80, 8080, 6006, 1, 65535, *FRAMEWORK_PORTS, *((0, 70000) if self.chance(5) else ())]
        found = []
        for _ in range(self.choice([0, 1, 1, 2, 3, 5])):
            port: dict[str, Any] = {"containerPort": self.choice(numbers)}
            if name := self.choice(PORT_NAMES):
                port["name"] = name
            if self.chance(40):
                port["protocol"] = self.choice(["TCP", "UDP", "SCTP"])
            found.append(port)
        return found

    def container(self, name: str, *volumes: str) -> dict:
        """A container."""
        found: dict[str, Any] = {"name": name, "image": "python:3.11-slim"}
        if self.chance(60):
            found["ports"] = self.ports()
        if self.chance(30):
            found["resources"] = {"limits": self.choice(AMOUNTS)}
        if self.chance(30):
            found["securityContext"] = self.choice(SECURITY)
        if self.chance(20):
            found["env"] = [{"name": self.choice(["A", "TF_CONFIG", "RANK", "MASTER_ADDR"]), "value": "1"}]
        if volumes and self.chance(60):
            found["volumeMounts"] = [{"name": self.choice(volumes), "mountPath": self.choice(PATHS)}]
        return found

    def pod_spec(self, container: str) -> dict:
        """A pod spec whose framework's container has this name."""
        volumes = self.sample(VOLUMES, self.choice([0, 0, 1, 2]))
        spec: dict[str, Any] = {"containers": [self.container(container, *volumes)]}
        if volumes:
            spec["volumes"] = [{"name": name, "emptyDir": {}} for name in volumes]
        if self.chance(30):
            spec["containers"].insert(self.choice([0, 1]), self.container(self.choice(CONTAINERS), *volumes))
        if self.chance(25):
            spec["initContainers"] = [self.container(self.choice(CONTAINERS), *volumes)]
            if self.chance(40):
                spec["initContainers"][0]["restartPolicy"] = "Always"
        optional: dict[str, list] = {
            "hostNetwork": [True],
            "dnsPolicy": ["ClusterFirstWithHostNet", "Default"],
            "dnsConfig": [{"searches": [f"d{n}.example" for n in range(count)]} for count in (1, 31, 32)],
            "hostname": ["own"],
            "subdomain": ["theirs"],
            "setHostnameAsFQDN": [True],
            "securityContext": [{"runAsNonRoot": True}, {"runAsUser": 1000, "fsGroup": 1}],
            "resources": [{"limits": amounts} for amounts in AMOUNTS[:3]],
            "restartPolicy": ["Always", "Never"],
            "shareProcessNamespace": [True],
            "terminationGracePeriodSeconds": [0, 3],
            "os": [{"name": "linux"}],
            "schedulerName": ["other"],
        }
        for field, values in optional.items():
            if self.chance(8):
                spec[field] = self.choice(values)
        return spec

    def job(self) -> dict:
        """A job of any kind and version."""
        kind = self.choice(list(ROLES))
        roles = [role for role in ROLES[kind] if self.chance(70)] or [ROLES[kind][-1]]
        groups = {}
        for role in roles:
            template: dict[str, Any] = {"spec": self.pod_spec(KINDS[kind].container)}
            if self.chance(20):
                template["metadata"] = {"labels": {"app": "x"}, "annotations": {"a": "b"}}
            groups[role] = {"replicas": self.choice([0, 1, 1, 2, 11]), "template": template}
            if role not in ("Worker", "PS"):
                groups[role]["replicas"] = 1
            if self.chance(60):
                groups[role]["restartPolicy"] = self.choice(["Never", "OnFailure", "ExitCode", "Always"])
        metadata: dict[str, Any] = {"name": self.choice(NAMES)}
        if self.chance(30):
            metadata["annotations"] = {"trainshed.dev/services": self.choice(["Job", "Replica"])}
        spec: dict[str, Any] = {KINDS[kind].field: groups}
        if kind in ("PyTorchJob", "PaddleJob") and self.chance(40):
            bounds = {"minReplicas": self.choice([0, 1, 2]), "maxReplicas": self.choice([0, 1, 2, 12])}
            spec["elasticPolicy"] = {name: value for name, value in bounds.items() if self.chance(80)}
            if self.chance(60):
                spec["elasticPolicy"]["metrics"] = self.choice([[METRIC], [METRIC, METRIC], []])
        version = "v2beta1" if kind == "MPIJob" and self.chance(50) else "v1"
        if version == "v2beta1" and self.chance(50):
            spec |= {"launcherCreationPolicy": "AtStartup", "sshAuthMountPath": self.choice(PATHS)}
        return {"apiVersion": f"kubeflow.org/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def defaults(draw: Draw) -> JobDefaults:
    """Settings of an operator; without gang schedulers, whose kinds the server does not have."""
    return JobDefaults(
        services=draw.choice([*ServiceForm]),
        init_image=draw.choice(["", "alpine"]),
        cluster_domain=draw.choice(["", "k8s.example"]),
        mpi_bind_named_accounts=draw.chance(50),
    )


def objects(job: Job, framework: Framework, settings: JobDefaults) -> Iterator[tuple[str, str, dict]]:
    """Yield the plural, the path of the API group, and the body of what the operator creates for a job."""
    actions = plan(Snapshot(job, framework, settings, Status(), (), (), NOW)).actions
    for action in actions:
        if isinstance(action, CreateService):
            yield "services", "/api/v1", action.body
    names = [child_name(job, replica) for replica in job.all_replicas]
    for pods in (PodNames(), PodNames(names, names)):
        for target in framework.hooks.dependents(job, settings, pods):
            yield target.resource.plural, target.resource.prefix, dependents.body(framework, job, target)
    if not any(isinstance(action, (CreatePod, CreateDependent)) for action in actions):
        return
    make = builders.pod_maker(framework, job, settings)
    for group in job.groups:
        for replica in [*group.replicas][:1] + [*group.replicas][1:][-1:]:
            yield "pods", "/api/v1", make(replica, 0).body


def fault(user: UserClient, seed: int) -> tuple[str, str]:
    """Return what became of a random job, and what is wrong with that."""
    draw = Draw(seed)
    document, settings = draw.job(), defaults(draw)
    framework = FRAMEWORKS[document["kind"]] if document["apiVersion"].endswith("/v1") else MPI_V2BETA1
    where = f"namespaces/{user.namespace}"
    if framework is not MPI_V2BETA1 and user.refusal(f"{GROUP}/{where}/{framework.plural}", document):
        return "refused at admission", ""
    document["metadata"] |= {"namespace": user.namespace, "uid": "7b1b5a3e-0000-4000-8000-000000000000"}
    job = parse.job(document, framework, settings)
    if job.problems:
        return "failed with the reason", ""
    for plural, group, body in objects(job, framework, settings):
        if plural == "pods":
            body["spec"].pop("serviceAccountName", None)  # the account is created before, and here nothing is stored
        said = user.refusal(f"{group}/{where}/{plural}", body)
        if said and plural == "pods":
            role = next(group for group in job.groups if group.role.lower() in body["metadata"]["name"].split("-"))
            bare = {"metadata": {"name": "bare"}, "spec": {**role.template["spec"], "restartPolicy": "Never"}}
            if user.refusal(f"/api/v1/{where}/pods", bare):
                return "its template is refused", ""
        if said:
            return "wrong", f"seed {seed}: {plural} {body['metadata']['name']} of a {job.kind}: {said}"
    return "accepted", ""


def test_the_server_accepts_every_object_of_every_job_that_it_accepts(user: UserClient):
    outcomes = [fault(user, SEED + number) for number in range(NUMBER)]
    counts = Counter(outcome for outcome, _ in outcomes)
    assert [wrong for _, wrong in outcomes if wrong] == [], counts
    assert counts["accepted"] > NUMBER / 4, counts

"""Every job that cannot be, with the row that says so and the words in which it is refused."""

from __future__ import annotations

import pytest

from support.jobs import KINDS

from .row import differs, same
from .valid_jobs import (
    JX,
    MPI,
    PD,
    PT,
    TF,
    XGB,
    replicas_field,
    valid,
    with_container,
    with_elastic_policy,
    with_name,
    with_roles,
    without_containers,
)

#: The rows that v1 has for each kind alike: a name that is none, no containers, no image, the wrong container's name.
ALIKE = {
    TF: ("00test", "TO-034", "TO-035", "TO-036", "TO-037"),
    PT: ("0-test", "TO-044", "TO-045", "TO-046", "TO-047"),
    XGB: ("-test", "TO-058", "TO-059", "TO-060", "TO-061"),
    PD: ("__test", "TO-066", "TO-067", "TO-068", "TO-069"),
    JX: ("0-test", "TO-074", "TO-075", "TO-076", "TO-077"),
}


def refused(mark: pytest.MarkDecorator, wanted: dict, *words: str):
    """Return a case: a row, the job, and the text of the refusal."""
    return pytest.param(wanted, words, marks=mark, id=mark.args[0].number)


def _alike(kind: str) -> list:
    name, of_name, of_containers, of_image, of_container = ALIKE[kind]
    containers, container = f"{replicas_field(kind)}[Worker].template.spec.containers", KINDS[kind].container
    lacking = f"{containers}: Required value: must have at least one container with name {container}"
    both = "no containers are two Required values, of the list and of the container's name"
    return [
        refused(
            same(of_name, f"{kind} {name}: an invalid metadata.name"), with_name(kind, name), "metadata.name: Invalid"
        ),
        refused(
            same(of_containers, f"{kind}: {both}"),
            without_containers(kind, "Worker"),
            f"{containers}: Required value: must be specified",
            lacking,
        ),
        refused(
            same(of_image, f"{kind}: an empty image is a Required value"),
            with_container(kind, "Worker", image=""),
            f"{containers}[0].image: Required value: is required",
        ),
        refused(
            same(of_container, f"{kind}: no container named {container} is a Required value"),
            with_container(kind, "Worker", name="other"),
            lacking,
        ),
    ]


def _manager(mark: pytest.MarkDecorator, kind: str):
    wanted = valid(kind, policy={"managedBy": "other-job-controller"})
    return refused(mark, wanted, 'spec.runPolicy.managedBy: Unsupported value: "other-job-controller"')


UNMANAGED = "managedBy other-job-controller is not supported"
LIKE_ANY = [case for kind in ALIKE for case in _alike(kind)] + [
    _manager(same("TO-039", f"{TF}: {UNMANAGED}"), TF),
    _manager(same("TO-051", f"{PT}: {UNMANAGED}"), PT),
    _manager(same("TO-064", f"{XGB}: {UNMANAGED}"), XGB),
    _manager(same("TO-071", f"{PD}: {UNMANAGED}"), PD),
    _manager(differs("TO-080", "D7", f"{JX}: {UNMANAGED}; v1 accepts it"), JX),
    refused(
        same("TO-070", f"{PD}: no map is a Required value"),
        valid(PD, paddleReplicaSpecs=None),
        f"{replicas_field(PD)}: Req",
    ),
    refused(
        same("TO-078", f"{JX}: no map is a Required value"),
        valid(JX, jaxReplicaSpecs=None),
        f"{replicas_field(JX)}: Req",
    ),
]
MASTER = same("TO-048", "the Master of a PyTorchJob is one: neither two nor unsaid")
MUST_BE_1 = "[Master].replicas: Forbidden: must be 1"
OWN = [
    refused(
        same("TO-038", "a TFJob has a Chief or a Master, not both"),
        with_roles(TF, Chief=1, Master=1, Worker=1),
        "spec.tfReplicaSpecs: Forbidden: must not have more than 1 Chief or Master role",
    ),
    refused(
        differs("TO-041", "D13", "a replica type Foo of a TFJob is refused; v1 makes its pods"),
        with_roles(TF, Worker=1, Foo=1),
        "spec.tfReplicaSpecs: Invalid value: supported replica types",
    ),
    refused(MASTER, with_roles(PT, Master=2, Worker=1), f"{replicas_field(PT)}{MUST_BE_1}"),
    refused(MASTER, with_roles(PT, Master=None, Worker=1), f"{replicas_field(PT)}{MUST_BE_1}"),
    refused(
        differs("TO-050", "D29", "processes per node have one field; without a warning"),
        valid(PT, nprocPerNode="1", elasticPolicy={"nProcPerNode": 1}),
        "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode",
    ),
    refused(
        same("TO-053", "an elastic PyTorchJob has workers"),
        with_elastic_policy({}, Master=1),
        "spec.pytorchReplicaSpecs[Worker]: Required value: must be configured if elastic policy is used",
    ),
    refused(
        same("TO-054", "Workers of a PyTorchJob are at least 1"),
        with_roles(PT, Master=1, Worker=0),
        "spec.pytorchReplicaSpecs[Worker].replicas: Forbidden: must be at least 1",
    ),
    refused(
        differs(
            "TO-055",
            "D9",
            "a replica type worker in lower case is an Invalid value for a PyTorchJob",
        ),
        with_roles(PT, Master=1, worker=1),
        "spec.pytorchReplicaSpecs: Invalid value: supported replica types",
    ),
    refused(
        same("TO-062", "the Master of an XGBoostJob is one"),
        with_roles(XGB, Master=2),
        f"{replicas_field(XGB)}{MUST_BE_1}",
    ),
    refused(
        same("TO-063", "an XGBoostJob has a Master"),
        with_roles(XGB, Worker=1),
        "spec.xgbReplicaSpecs[Master]: Required value: must be present",
    ),
    refused(
        differs("TO-079", "D9", "a replica type Master is an Invalid value for a JAXJob"),
        with_roles(JX, Master=1, Worker=1),
        "spec.jaxReplicaSpecs: Invalid value: supported replica types",
    ),
]
STORED = "is refused; v1 stores the job and only sends events"
MPI_JOBS = [
    refused(
        differs("TO-081", "D14", f"a launcher of no containers {STORED}"),
        without_containers(MPI, "Launcher"),
        "spec.mpiReplicaSpecs[Launcher].template.spec.containers: Required value: must be specified",
    ),
    refused(
        differs("TO-082", "D14", f"an empty image {STORED}"),
        with_container(MPI, "Launcher", image=""),
        "spec.mpiReplicaSpecs[Launcher].template.spec.containers[0].image: Required value",
    ),
    refused(
        differs("TO-083", "D14", f"a container without name {STORED}"),
        with_container(MPI, "Worker", name=""),
        "spec.mpiReplicaSpecs[Worker].template.spec.containers[0].name: Required value",
    ),
    refused(
        differs("TO-084", "D14", f"a second launcher {STORED}"),
        with_roles(MPI, Launcher=2, Worker=1),
        "[Launcher].replicas",
    ),
    refused(
        differs("TO-085", "D14", f"no launcher {STORED}"), with_roles(MPI, Worker=1), "spec.mpiReplicaSpecs[Launcher]"
    ),
    refused(
        differs("TO-086", "D14", f"a replica type launcher in lower case {STORED}"),
        with_roles(MPI, launcher=1, Worker=1),
        "spec.mpiReplicaSpecs: Invalid value: supported replica types",
    ),
]


REFUSALS = [*LIKE_ANY, *OWN, *MPI_JOBS]

"""The form of a job's Services: its annotation, the operator's default, or v1's where no other is possible."""

from __future__ import annotations

import pytest

from support import mpi_v2beta1_jobs
from support.builders import FRAMEWORKS
from support.jobs import KINDS, job
from trainshed.api import parse
from trainshed.api.framework import JobDefaults
from trainshed.api.job import ServiceForm
from trainshed.frameworks.mpi_v2beta1 import MPI_V2BETA1

JOB_BY_DEFAULT = JobDefaults(services=ServiceForm.JOB)


def read(kind="TFJob", asked=None, defaults=None, **spec):
    roles = {"Launcher": 1} if kind == "MPIJob" else {"Master": 1} if kind == "XGBoostJob" else {}
    document = job(kind, "mnist", **roles, Worker=1)
    document["metadata"] |= {"namespace": "ml", "annotations": {"trainshed.dev/services": asked} if asked else {}}
    for group in document["spec"][FRAMEWORKS[kind].field].values():
        group["template"]["spec"] |= spec
    return parse.job(document, FRAMEWORKS[kind], defaults or JobDefaults())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "MPIJob"])
def test_the_job_chooses_before_the_operator_does(kind):
    for asked, defaults, form in (
        (None, None, "Replica"),
        ("Job", None, "Job"),
        ("Replica", None, "Replica"),
        (None, JOB_BY_DEFAULT, "Job"),
        ("Replica", JOB_BY_DEFAULT, "Replica"),
    ):
        found = read(kind, asked, defaults)
        assert (found.services, found.problems) == (form, ())


def test_an_unknown_form_is_a_problem():
    found = read(asked="Role")
    assert found.problems == (
        'metadata.annotations[trainshed.dev/services]: Unsupported value: "Role": supported values: "Replica", "Job"',
    )


def test_a_kind_without_services_ignores_it():
    assert read("MPIJob", "Job").services is ServiceForm.REPLICA
    assert read("MPIJob", "Job", subdomain="x").problems == ()
    newer = parse.job(mpi_v2beta1_jobs.document(), MPI_V2BETA1, JOB_BY_DEFAULT)
    assert (newer.services, newer.problems) == (ServiceForm.REPLICA, ())


SET = " is set, and the operator would have to change it"


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"hostname": "x"}, f"hostname{SET}"),
        ({"subdomain": "x"}, f"subdomain{SET}"),
        ({"setHostnameAsFQDN": True}, f"setHostnameAsFQDN{SET}"),
        (
            {"dnsConfig": {"searches": [f"{n}.example" for n in range(32)]}},
            "dnsConfig.searches has no space for one more domain",
        ),
        ({"dnsConfig": {"searches": ["x" * 200] * 9}}, "dnsConfig.searches has no space for one more domain"),
    ],
    ids=["hostname", "subdomain", "as-fqdn", "searches", "characters"],
)
def test_a_template_that_does_not_allow_it_is_a_problem_for_the_job_and_not_for_the_default(spec, what):
    place = "spec.tfReplicaSpecs[Worker].template.spec"
    asked = read(asked="Job", **spec)
    assert asked.services is ServiceForm.REPLICA
    assert asked.problems == (
        f"metadata.annotations[trainshed.dev/services]: Forbidden: must not be Job: {place}.{what}",
    )
    default = read(defaults=JOB_BY_DEFAULT, **spec)
    assert (default.services, default.problems) == (ServiceForm.REPLICA, ())


def test_a_template_may_have_settings_that_say_nothing():
    spec = {"hostname": "", "subdomain": None, "setHostnameAsFQDN": False, "dnsConfig": None}
    assert (read(asked="Job", **spec).services, read(asked="Job", **spec).problems) == ("Job", ())
    for searches in ([f"{n}.example" for n in range(31)], None):
        assert read(asked="Job", dnsConfig={"searches": searches}).services is ServiceForm.JOB

"""One headless Service for each replica or for the job: creation, deletion, and the fields of the pods."""

from __future__ import annotations

import json
from itertools import product

import pytest

from support.builders import (
    DeleteService,
    a_job,
    a_service,
    at,
    deleted,
    made,
    plan_for,
    pods_of,
    replace,
    run_policy,
    services,
)
from trainshed.api.actions import CreateDependent, CreatePod, CreateService
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Port, RestartPolicy, ServiceForm
from trainshed.api.objects import Service
from trainshed.api.status import Condition, ConditionType, Status

JOB_SERVICE = Service("mnist", "svc", "1", "job-uid", "ml", "mnist", "", -1)
LABELS = {"training.kubeflow.org/operator-name": "tfjob-controller", "training.kubeflow.org/job-name": "mnist"}


def one_service(kind="TFJob", **fields):
    return a_job(kind, services=ServiceForm.JOB, **fields)


def joined(job, **fields):
    """All pods of a job, with the mark of those that resolve by its one Service."""
    return [replace(pod, service="mnist") for pod in pods_of(job, **fields)]


def body(decision, name, kind=CreatePod):
    return next(action.body for action in decision.actions if isinstance(action, kind) and action.name == name)


def test_one_service_selects_all_pods_of_the_job():
    decision = plan_for(one_service(chief=1, worker=2), services=())
    assert services(decision) == ["mnist"]
    assert made(decision) == ["mnist-chief-0", "mnist-worker-0", "mnist-worker-1"]
    found = body(decision, "mnist", CreateService)
    assert found["metadata"]["labels"] == LABELS
    assert found["metadata"]["ownerReferences"][0]["uid"] == "job-uid"
    assert found["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": LABELS,
        "ports": [{"name": "tfjob-port", "port": 2222}],
    }


def test_a_pod_has_the_name_and_the_domain_under_which_the_service_publishes_it():
    decision = plan_for(one_service("PyTorchJob", master=1, worker=1), services=())
    pod = body(decision, "mnist-worker-0")
    assert pod["metadata"]["annotations"]["trainshed.dev/job-service"] == "mnist"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("mnist-worker-0", "mnist")
    assert pod["spec"]["dnsConfig"] == {"searches": ["mnist.ml.svc.cluster.local"]}
    env = {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}
    assert env["MASTER_ADDR"] == "mnist-master-0"


def test_the_search_domain_ends_with_the_cluster_domain_and_joins_those_of_the_template():
    config = {"searches": ["corp.example", "mnist.ml.svc.k8s.example"], "options": [{"name": "ndots", "value": "2"}]}
    template = {"spec": {"dnsPolicy": "None", "dnsConfig": config, "containers": [{"name": "tensorflow"}]}}
    job = one_service(worker=1, template=template)
    decision = plan_for(job, services=(), job_defaults=JobDefaults(cluster_domain="k8s.example"))
    spec = body(decision, "mnist-worker-0")["spec"]
    assert spec["dnsConfig"] == config | {"searches": ["mnist.ml.svc.k8s.example", "corp.example"]}
    assert spec["dnsPolicy"] == "None"
    assert config["searches"] == ["corp.example", "mnist.ml.svc.k8s.example"], "the template is left as it is"


@pytest.mark.parametrize(("domain", "end"), [("", ""), ("k8s.example", ".k8s.example")])
def test_tf_config_names_the_service_of_the_job(domain, end):
    decision = plan_for(one_service(worker=2), services=(), job_defaults=JobDefaults(cluster_domain=domain))
    (variable,) = body(decision, "mnist-worker-0")["spec"]["containers"][0]["env"]
    workers = json.loads(variable["value"])["cluster"]["worker"]
    assert workers == [f"mnist-worker-{index}.mnist.ml.svc{end}:2222" for index in range(2)]


def test_v1s_form_leaves_the_pods_as_they_are():
    pod = body(plan_for(a_job(worker=1), services=()), "mnist-worker-0")
    assert not {"hostname", "subdomain", "dnsConfig"} & pod["spec"].keys()
    assert "trainshed.dev/job-service" not in pod["metadata"]["annotations"]


def test_the_service_has_each_port_once_and_each_name_once():
    job = one_service(chief=1, ps=1, worker=1)
    ports = {
        "Chief": (Port("tfjob-port", 2222), Port("", 9000), Port("metrics", 8080)),
        "PS": (Port("tfjob-port", 2223), Port("web", 8080)),
        "Worker": (Port("tfjob-port", 2222), Port("tfjob-port", 2224), Port("tfjob-port", 2225)),
    }
    job = replace(job, groups=tuple(replace(group, ports=ports[group.role]) for group in job.groups))
    assert body(plan_for(job, services=()), "mnist", CreateService)["spec"]["ports"] == [
        {"name": "tfjob-port", "port": 2222},
        {"name": "tcp-9000", "port": 9000},
        {"name": "metrics", "port": 8080},
        {"name": "tfjob-port-ps", "port": 2223},
        {"name": "tfjob-port-worker", "port": 2224},
    ]


def test_scaling_does_not_change_the_service():
    smaller, larger = one_service("PyTorchJob", worker=1), one_service("PyTorchJob", worker=3)
    pods = joined(one_service("PyTorchJob", worker=2))
    shrunk, grown = (plan_for(job, *pods, services=(JOB_SERVICE,)) for job in (smaller, larger))
    assert deleted(shrunk) == ["mnist-worker-1"]
    assert made(grown) == ["mnist-worker-2"]
    for decision in (shrunk, grown):
        assert services(decision) == services(decision, DeleteService) == []


@pytest.mark.parametrize("asked", ServiceForm)
def test_running_pods_keep_the_services_that_they_have(asked):
    job = a_job("PyTorchJob", master=1, worker=2, services=asked)
    own = tuple(a_service(str(replica)) for replica in job.all_replicas)
    for pods, there in ((pods_of(job), own), (joined(job), (JOB_SERVICE,))):
        decision = plan_for(job, *pods, services=there)
        assert services(decision) == services(decision, DeleteService) == made(decision) == []
        lost = plan_for(job, *pods, services=())
        assert services(lost) == [service.name for service in there]


def test_a_pod_that_joins_others_has_their_form():
    job = a_job("TFJob", ps=1, worker=2)
    here = [pod for pod in joined(job) if pod.name != "mnist-worker-1"]
    pod = body(plan_for(job, *here, services=(JOB_SERVICE,)), "mnist-worker-1")
    assert pod["spec"]["subdomain"] == "mnist"
    job = one_service("TFJob", ps=1, worker=2)
    here = [pod for pod in pods_of(job) if pod.name != "mnist-worker-1"]
    assert "subdomain" not in body(plan_for(job, *here), "mnist-worker-1")["spec"]


def test_the_configuration_of_running_pods_does_not_change_with_the_annotation():
    job, status = one_service(worker=65), Status(start=at(0))
    (there,) = (
        item.name for item in plan_for(a_job(worker=65), status=status).actions if isinstance(item, CreateDependent)
    )
    decision = plan_for(job, *pods_of(job), status=status)
    assert [item.name for item in decision.actions if isinstance(item, CreateDependent)] == [there]


@pytest.mark.parametrize("to", ServiceForm)
def test_a_new_attempt_has_the_form_that_the_job_asks_for(to):
    job = a_job("PyTorchJob", master=1, worker=1, services=to)
    own, one = (a_service("master-0"), a_service("worker-0")), (JOB_SERVICE,)
    before, after = (own, one) if to is ServiceForm.JOB else (one, own)
    status = Status(start=at(0), attempts={"Master": 1, "Worker": 1})
    going = pods_of(job) if to is ServiceForm.JOB else joined(job)
    waits = plan_for(job, *going, status=status, services=before)
    assert (deleted(waits), services(waits), services(waits, DeleteService)) == (
        ["mnist-master-0", "mnist-worker-0"],
        [],
        [],
    )
    created = plan_for(job, status=status, services=before)
    assert services(created) == [service.name for service in after]
    assert services(created, DeleteService) == [], "a pod that has lost its label may need them"
    new = joined(job, attempt=1) if to is ServiceForm.JOB else pods_of(job, attempt=1)
    cleaned = plan_for(job, *new, status=status, services=(*before, *after))
    assert services(cleaned, DeleteService) == [service.name for service in before]
    pod = body(created, "mnist-worker-0")
    assert pod["spec"].get("subdomain") == ("mnist" if to is ServiceForm.JOB else None)


@pytest.mark.parametrize("asked", ServiceForm)
def test_pods_of_both_forms_have_all_services(asked):
    job = a_job("TFJob", ps=1, worker=2, services=asked)
    pods = [pod for pod in (*joined(job)[:1], *pods_of(job)[1:]) if pod.name != "mnist-worker-1"]
    decision = plan_for(job, *pods, services=())
    assert services(decision) == ["mnist-ps-0", "mnist-worker-0", "mnist-worker-1", "mnist"]
    assert "subdomain" not in body(decision, "mnist-worker-1")["spec"]


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob"])
@pytest.mark.parametrize("asked", ServiceForm)
def test_a_pod_that_no_watch_reports_keeps_its_service(kind, asked):
    roles = {"ps": 1, "worker": 1} if kind == "TFJob" else {"master": 1, "worker": 1}
    job = a_job(kind, services=asked, **roles)
    every = (*(a_service(str(replica)) for replica in job.all_replicas), JOB_SERVICE)
    for first, second in product(("", "mnist"), repeat=2):
        hidden, seen = (replace(pod, service=form) for pod, form in zip(pods_of(job), (first, second), strict=True))
        refusal = ("PodWithoutLabel", "its label was removed", (hidden,))
        for pods in ((), (seen,)):
            decision = plan_for(job, *pods, services=every, refusal=refusal)
            assert not {pod.service or pod.name for pod in (hidden, *pods)} & set(services(decision, DeleteService))


def test_a_suspended_job_has_no_service():
    job = one_service("PyTorchJob", master=1, policy=run_policy(suspend=True))
    decision = plan_for(job, *joined(job), services=(JOB_SERVICE,))
    assert services(decision, DeleteService) == ["mnist"]


def test_the_service_goes_at_the_end_as_the_pods_do():
    over = Status(start=at(0), completion=at(9), conditions=(condition("Succeeded"),))
    job = one_service("PyTorchJob", master=1, worker=1)
    master, worker = joined(job)
    master = replace(master, phase="Succeeded")

    def goes(clean, *pods):
        finished = replace(job, policy=run_policy(clean=clean))
        decision = plan_for(finished, *pods, status=over, services=(JOB_SERVICE,), now=at(10))
        return services(decision, DeleteService)

    assert goes("None", master, worker) == []
    assert goes("All", master, worker) == ["mnist"]
    assert goes("Running", master, worker) == goes("Running", master) == [], "the master's pod stays"
    assert goes("Running") == ["mnist"]


def condition(kind):
    return Condition(ConditionType(kind), True, "Reason", "message", at(9), at(9))


def test_no_plan_takes_a_service_from_a_pod_that_needs_it():
    """Covers every combination of forms, existing Services and wanted Services, over all scopes."""
    forms = ("", "mnist")
    for kind, asked, first, second, left in product(
        ("TFJob", "PyTorchJob"), ServiceForm, (None, *forms), (None, *forms), range(8)
    ):
        roles = {"ps": 1, "worker": 1} if kind == "TFJob" else {"master": 1, "worker": 1}
        job = a_job(kind, services=asked, restart=RestartPolicy.NEVER, **roles)
        pods = [
            replace(pod, service=form)
            for pod, form in zip(pods_of(job), (first, second), strict=True)
            if form is not None
        ]
        all_services = (*(a_service(str(replica)) for replica in job.all_replicas), JOB_SERVICE)
        there = tuple(service for number, service in enumerate(all_services) if left >> number & 1)
        decision = plan_for(job, *pods, services=there)
        after = {service.name for service in there} - set(services(decision, DeleteService)) | set(services(decision))
        assert {pod.service or pod.name for pod in pods} <= after, (kind, asked, first, second, left)
        for action in decision.actions:
            if isinstance(action, CreatePod):
                spec = action.body["spec"]
                assert spec.get("subdomain", action.name) in after, (kind, asked, first, second, left)
        again = plan_for(job, *pods, services=tuple(one for one in all_services if one.name in after))
        assert services(again) == services(again, DeleteService) == [], "a second plan has nothing to add"

"""The pods of jobs that report to the progress endpoint get what its clients need, and those of others nothing."""

from __future__ import annotations

import pytest

from support.builders import FRAMEWORKS, a_job, seen
from support.replace import replace
from trainshed.api.actions import CreateDependent, CreatePod, UpdateDependent
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Job, ProgressSource
from trainshed.api.objects import Dependent
from trainshed.plan import plan
from trainshed.plan.reporting_pods import FOLDER, VOLUME, audience, config_name

HOST = "trainshed-progress.operators.svc"
DEFAULTS = JobDefaults(progress_server=f"{HOST}:10443")
URL = f"https://{HOST}:10443/apis/trainer.kubeflow.org/v1alpha1/namespaces/ml/trainjobs/mnist/status"
OWN = {
    "KUBEFLOW_TRAINER_SERVER_URL": URL,
    "KUBEFLOW_TRAINER_SERVER_CA_CERT": f"{FOLDER}/ca.crt",
    "KUBEFLOW_TRAINER_SERVER_TOKEN": f"{FOLDER}/token",
}
PROXY = {"name": "HTTPS_PROXY", "value": "http://proxy:3128"}


def a_reporting_job(kind: str = "PyTorchJob", container: dict | None = None, **spec) -> Job:
    own = {"name": FRAMEWORKS[kind].container.name, "image": "x", **(container or {})}
    template = {"spec": {"containers": [{"name": "sidecar", "image": "y"}, own], **spec}}
    return a_job(kind, worker=1, template=template, progress=ProgressSource.ENDPOINT)


def pod_spec(job: Job, defaults: JobDefaults = DEFAULTS) -> dict:
    actions = plan(seen(job, services=(), job_defaults=defaults)).actions
    return next(action for action in actions if isinstance(action, CreatePod)).body["spec"]


def variables(container: dict) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in container.get("env", ()):
        found.setdefault(entry["name"], []).append(entry.get("value"))
    return found


@pytest.mark.parametrize("kind", ["PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob"])
def test_only_the_container_that_trains_gets_variables_a_token_and_the_ca(kind):
    spec = pod_spec(a_reporting_job(kind))
    sidecar, own = spec["containers"]
    assert {name: value for name, [value] in variables(own).items() if name in OWN} == OWN
    assert not OWN.keys() & variables(sidecar).keys()
    assert "volumeMounts" not in sidecar
    assert own["volumeMounts"] == [{"name": VOLUME, "mountPath": FOLDER, "readOnly": True}]
    token, config = spec["volumes"][0]["projected"]["sources"]
    assert token["serviceAccountToken"] == {
        "audience": "trainer.kubeflow.org/v1alpha1/namespaces/ml/trainjobs/mnist/status",
        "expirationSeconds": 3600,
        "path": "token",
    }
    assert config["configMap"] == {
        "name": f"mnist-{kind.lower()}-progress",
        "items": [{"key": "ca.crt", "path": "ca.crt"}],
        "optional": True,
    }


@pytest.mark.parametrize(
    ("progress", "defaults"),
    [(ProgressSource.NONE, DEFAULTS), (ProgressSource.LOGS, DEFAULTS), (ProgressSource.ENDPOINT, JobDefaults())],
)
def test_pods_of_other_jobs_are_as_before(progress, defaults):
    job = replace(a_reporting_job(container={"env": [PROXY]}), progress=progress)
    without = pod_spec(replace(job, progress=ProgressSource.NONE), JobDefaults())
    assert pod_spec(job, defaults) == without
    assert "volumes" not in without


def test_a_template_without_containers_gets_nothing():
    job = a_job("PyTorchJob", worker=1, template={"spec": {}}, progress=ProgressSource.ENDPOINT)
    assert "volumes" not in pod_spec(job)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ([], {}),
        ([{"name": "HTTP_PROXY", "value": "p"}], {}),
        ([PROXY], {"NO_PROXY": [HOST], "no_proxy": [HOST]}),
        ([{"name": "all_proxy", "value": "p"}], {"NO_PROXY": [HOST], "no_proxy": [HOST]}),
        # A list of the template stays, and no other spelling hides it: Python prefers the one in lower case.
        ([PROXY, {"name": "NO_PROXY", "value": ".svc2"}], {"NO_PROXY": [".svc2", f"$(NO_PROXY),{HOST}"]}),
        ([{"name": "no_proxy", "valueFrom": {}}], {"no_proxy": [None, f"$(no_proxy),{HOST}"]}),
    ],
)
def test_the_host_needs_no_proxy(env, expected):
    own = pod_spec(a_reporting_job(container={"env": env}))["containers"][1]
    assert {name: value for name, value in variables(own).items() if name.lower() == "no_proxy"} == expected


def test_variables_from_elsewhere_are_not_hidden():
    """A ConfigMap may set NO_PROXY, which nothing in a pod can complete."""
    job = a_reporting_job(container={"env": [PROXY], "envFrom": [{"configMapRef": {"name": "proxies"}}]})
    assert "NO_PROXY" not in variables(pod_spec(job)["containers"][1])


@pytest.mark.parametrize(
    "fields",
    [
        {"volumes": [{"name": VOLUME, "emptyDir": {}}]},
        {"container": {"volumeMounts": [{"name": "own", "mountPath": f"{FOLDER}/"}]}},
    ],
)
def test_what_the_template_has_itself_stays(fields):
    own = {"env": [{"name": "KUBEFLOW_TRAINER_SERVER_URL", "value": "https://other"}], **fields.pop("container", {})}
    before = a_reporting_job(container=own, **fields)
    spec, template = pod_spec(before), before.groups[0].template["spec"]
    assert spec.get("volumes") == template.get("volumes")
    assert spec["containers"][1].get("volumeMounts") == own.get("volumeMounts")
    assert variables(spec["containers"][1])["KUBEFLOW_TRAINER_SERVER_URL"] == ["https://other"]


def test_the_ca_is_in_a_config_map_of_the_job_that_follows_it():
    job = a_reporting_job()

    def actions(authorities: str, *there: Dependent) -> list:
        snapshot = replace(seen(job, job_defaults=DEFAULTS), authorities=authorities, dependents=there)
        return [each for each in plan(snapshot).actions if isinstance(each, (CreateDependent, UpdateDependent))]

    assert actions("") == [], "the CA is not known yet"
    [made] = actions("first")
    assert made.name == config_name(job)
    assert made.body["data"] == {"ca.crt": "first"}
    assert made.body["metadata"]["ownerReferences"][0]["uid"] == job.uid
    document = {**made.body, "metadata": {**made.body["metadata"], "uid": "c", "resourceVersion": "1"}}
    there = Dependent(made.resource, made.name, "c", "1", job.uid, "ml", job.name, document=document)
    assert actions("first", there) == []
    [updated] = actions("second", there)
    assert updated.patch["data"] == {"ca.crt": "second"}


def test_the_audience_is_trainers():
    assert audience("ml", "mnist") == URL.partition("/apis/")[2]

"""What Trainshed makes of TrainJobs is what Trainer's own code makes of them (tests/support/trainjobs.py)."""

from __future__ import annotations

import json
import subprocess

import pytest

from support.gang_schedulers import install
from support.trainjobs import CASES, REFUSED, converted_examples
from support.user_client import UserClient
from testbed.binaries import downloaded, own
from trainshed.trainjob import reading
from trainshed.trainjob.builtin_runtimes import RUNTIMES
from trainshed.trainjob.losses import NotConvertible
from trainshed.trainjob.renderer import Rendered

pytestmark = pytest.mark.long  # building what it compares with takes minutes
#: The table, and what the examples become.
ALL = {**CASES, **dict(converted_examples())}
#: The volumes of Trainer's policy for MPI; MPIJobs have others.
OF_MPI = ("mpi-ssh-auth", "mpi-hostfile")
#: Minutes that two cores take to build Trainer's runtime framework, of which most are for its dependencies.
MINUTES = 10


@pytest.fixture(scope="module")
def theirs() -> dict[str, dict]:
    """What Trainer makes of each case: `objects`, or `refused`."""
    cases = {**ALL, **{name: (job, runtime) for name, (job, runtime, _) in REFUSED.items()}}
    asked = {name: {"trainJob": job, "runtimes": [runtime or RUNTIMES[job["spec"]["runtimeRef"]["name"]]]}
             for name, (job, runtime) in cases.items()}  # fmt: skip
    done = subprocess.run(
        [str(own("trainer", MINUTES))], input=json.dumps(asked).encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def rendered(name: str) -> Rendered:
    trainjob, runtime = ALL[name]
    return reading.rendered(trainjob, [runtime] if runtime else [], "ns")


def plain(container: dict) -> dict:
    """A container without the order of its variables, which Trainer's plug-ins set in any order."""
    mounts = [mount for mount in container.get("volumeMounts") or () if mount["name"] not in OF_MPI]
    env = {
        entry["name"]: {key: entry[key] for key in entry if key != "name" and entry[key] != ""}
        for entry in container.get("env") or ()
    }
    resources = {
        part: {key: str(amount) for key, amount in amounts.items()}
        for part, amounts in (container.get("resources") or {}).items()
    }
    kept = {key: value for key, value in container.items() if value not in (None, [], {})}
    for key, value in {"env": env, "volumeMounts": mounts, "resources": resources}.items():
        kept.pop(key, None)
        kept |= {key: value} if value else {}
    return kept


@pytest.mark.parametrize("name", ALL)
def test_pods_are_those_of_trainer(theirs, name):
    made = rendered(name)
    assert "refused" not in theirs[name]
    objects = {item["kind"]: item for item in theirs[name]["objects"]}
    jobs = objects["JobSet"]["spec"]["replicatedJobs"]
    assert [job["name"] for job in jobs] == [role.name for role in made.roles]
    for job, role in zip(jobs, made.roles, strict=True):
        spec = job["template"]["spec"]
        assert (spec["parallelism"], spec["completions"], job.get("replicas", 1)) == (
            role.count, role.count, role.replicas,
        )  # fmt: skip
        pod = {**spec["template"]["spec"]}
        assert [plain(item) for item in pod.pop("containers")] == [plain(item) for item in role.containers]
        volumes = [volume for volume in pod.pop("volumes", None) or () if volume["name"] not in OF_MPI]
        mine = {key: value for key, value in role.template["spec"].items() if key not in ("containers", "volumes")}
        assert (volumes, {key: value for key, value in pod.items() if value}) == (
            role.template["spec"].get("volumes") or [], {key: value for key, value in mine.items() if value},
        )  # fmt: skip
    assert objects["JobSet"]["metadata"].get("labels", {}) == (made.metadata.get("labels") or {})
    hostfile = objects.get("ConfigMap", {}).get("data", {}).get("hostfile", "")
    assert hostfile.splitlines() == [*(made.hosts if made.policy == "mpi" else ())]


@pytest.mark.parametrize("name", REFUSED)
def test_what_trainer_refuses_is_refused(theirs, name):
    trainjob, runtime, _ = REFUSED[name]
    assert theirs[name]["refused"]
    with pytest.raises(NotConvertible):
        reading.converted(trainjob, [runtime] if runtime else [], "ns")


def test_an_api_server_accepts_what_examples_become(bed):
    """With the CRDs of Trainer; the Jobs are those that JobSet makes of a runtime."""
    source = downloaded("github.com/kubeflow/trainer/v2", "v2.3.0")
    for path in (source / "manifests" / "base" / "crds").glob("trainer.kubeflow.org_*.yaml"):
        install(bed.plane, path)
    user = UserClient.somewhere(bed.kubeconfig)
    group, query = f"/apis/{reading.VERSION}", "dryRun=All&fieldValidation=Strict"
    for name, (trainjob, runtime) in converted_examples():
        user.call("POST", f"{group}/clustertrainingruntimes?{query}", runtime)
        job = {**trainjob, "metadata": {**trainjob["metadata"], "namespace": user.namespace}}
        user.call("POST", f"{group}/namespaces/{user.namespace}/trainjobs?{query}", job)
        for role in rendered(name).roles:
            spec = {**role.job, "parallelism": role.count, "completions": role.count, "template": role.template}
            body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": role.name}, "spec": spec}
            user.call("POST", f"/apis/batch/v1/namespaces/{user.namespace}/jobs?{query}", body)

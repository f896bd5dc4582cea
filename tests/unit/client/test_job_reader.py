"""Of listed jobs only what is needed is kept."""

from __future__ import annotations

import json
import re
import tracemalloc

import msgspec
import pytest

from support.builders import a_pod as a_seen_pod
from trainshed.api.objects import JOB_NAME_LABEL
from trainshed.client import NotFound
from trainshed.client.job_reader import JobKind, JobReader, Jobs, NoSuchJob
from trainshed.client.lists import JobParts, held_devices

KIND = JobKind("PyTorchJob", "pytorchjobs", "/apis/kubeflow.org/v1")


def a_job(number: int, **spec: object) -> dict:
    metadata = {"name": f"j{number}", "namespace": "ml", "uid": f"u{number}"}
    return {"metadata": metadata | {"creationTimestamp": f"2026-01-01T12:00:0{number}Z"}, "spec": spec, "status": {}}


class Listed:
    """A client that lists these jobs, one in each page, and that may get them."""

    def __init__(self, jobs: list[dict]) -> None:
        self.jobs = jobs
        self.encoded = [json.dumps(job) for job in jobs]

    async def call(self, _verb: str, path) -> bytes:
        if not path.name:
            resources = [{"kind": KIND.kind, "name": KIND.plural}] if path.plural == "v1" else []
            return json.dumps({"resources": resources}).encode()
        return json.dumps(next(job for job in self.jobs if job["metadata"]["name"] == path.name)).encode()

    async def read_page(self, _path, query: dict[str, str], _most: int) -> bytes:
        number = int(query.get("continue", 0))
        following = str(number + 1) if number + 1 < len(self.jobs) else ""
        return b'{"metadata": {"continue": "%s"}, "items": [%s]}' % (following.encode(), self.encoded[number].encode())


@pytest.mark.parametrize("part", [{}, [], "x" * 10])
async def test_of_a_listed_job_only_what_is_read_is_kept(part):
    reader = JobReader(Listed([a_job(number, parts=[part] * 50_000) for number in range(8)]))
    tracemalloc.start()
    found = await reader.jobs(Jobs([KIND], "ml", {}), lambda job, _: job["metadata"]["name"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.jobs == [f"j{number}" for number in range(8)]
    assert peak < 4_000_000, "eight decoded jobs have some 20 MB"


async def test_all_of_a_job_can_be_read_and_the_latest_one_is_found():
    jobs = [a_job(number, replicas=number) for number in (1, 3, 2)]
    reader = JobReader(Listed(jobs))
    found = await reader.jobs(Jobs([KIND], "ml", {}), lambda _, whole: whole())
    assert [job["spec"] for job in found.jobs] == [job["spec"] for job in jobs]
    job, kind = await reader.find("ml", "@latest")
    assert (job["metadata"]["name"], job["spec"], job["kind"], kind) == ("j3", {"replicas": 3}, "PyTorchJob", KIND)


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"runPolicy": {"activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 5}, "x": [1]}, 60),
        ({"runPolicy": {"suspend": True}}, None),
        ({"runPolicy": {"activeDeadlineSeconds": "60"}}, None),
        ({"runPolicy": []}, None),
        ({}, None),
    ],
)
async def test_of_the_spec_of_a_listed_job_only_its_deadline_is_kept(spec, kept):
    found = await JobReader(Listed([a_job(1, **spec)])).jobs(Jobs([KIND], "ml", {}), lambda job, _: job["spec"])
    assert found.jobs == [{"runPolicy": {"activeDeadlineSeconds": kept}} if kept else {}]


@pytest.mark.parametrize(
    ("status", "kept"),
    [
        ({"completionTime": "x", "replicaStatuses": {"Worker": {"active": 3}}}, {"Worker": {"nvidia.com/gpu": "8"}}),
        ({"completionTime": "x", "replicaStatuses": {"Worker": {"active": 0}}}, {}),
        ({"replicaStatuses": {"Worker": {"active": 3}}}, {}),
    ],
)
def test_of_a_job_that_has_ended_and_has_pods_their_devices_are_kept(status: dict, kept: dict):
    limits = {"cpu": "4", "nvidia.com/gpu": "8"}
    worker = {"template": {"spec": {"containers": [{"resources": {"limits": limits}, "env": [1]}]}}}
    spec = {"runPolicy": {}, "pytorchReplicaSpecs": {"Worker": worker}, "other": [1], "tfReplicaSpecs": "?"}
    encoded = (msgspec.Raw(msgspec.json.encode(one)) for one in ({}, spec, status))
    found = held_devices(JobParts(*encoded)).get("pytorchReplicaSpecs", {})
    assert {
        role: one["template"]["spec"]["containers"][0]["resources"]["requests"] for role, one in found.items()
    } == kept


class Served(Listed):
    """A client of a cluster without jobs but with a pod of one, and these Events."""

    async def call(self, verb: str, path) -> bytes:
        if path.plural == "pods" and path.name == "j0-worker-1":
            return json.dumps({"metadata": {"labels": {JOB_NAME_LABEL: "j0"}}}).encode()
        if path.plural == "pods" and path.name == "other":
            return b"{}"
        if path.name:
            raise NotFound(path.name)
        return await super().call(verb, path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("j0-worker-1", "is a pod of job j0: trainshed logs j0 -n ml --replica worker-1 prints its output"),
        ("pod/j0-worker-1", "is a pod of job j0"),
        ("pods/other", "there is no pod other in namespace ml"),
        ("pods", "kubectl get pods shows pods"),
        ("other", "there is no job other in namespace ml: trainshed get -A"),
    ],
)
async def test_who_names_a_pod_learns_what_to_type(text, said):
    with pytest.raises(NoSuchJob, match=re.escape(said)):
        await JobReader(Served([])).find("ml", text)


def an_event(name: str, uid: str, second: int) -> dict:
    time = f"2026-01-01T12:00:0{second}Z"
    return {"involvedObject": {"name": name, "uid": uid}, "lastTimestamp": time, "message": f"{name} {second}"}


async def test_events_of_pods_that_are_gone_are_read():
    gone = [("j3-worker-0", 4), ("j3-worker-1", 2), ("j3-worker-x", 4), ("j3-master", 4), ("another-worker-0", 4)]
    events = [an_event(name, "gone", second) for name, second in gone] + [an_event("j3-odd", "u", 1)]
    job = a_job(3, pytorchReplicaSpecs={"Master": {}, "Worker": {}})
    found = await JobReader(Served(events)).events(job, [a_seen_pod("worker-9", uid="u")])
    about = [event["message"] for event in found[len(events) :]]
    assert about == ["j3-worker-0 4", "j3-master 4", "j3-odd 1"]


def a_pod(number: int, owner: str, container: dict) -> dict:
    reference = {"kind": KIND.kind, "name": "j0", "uid": owner, "controller": True}
    return {
        "metadata": {"name": f"j0-worker-{number}", "ownerReferences": [reference], "labels": {"x": "y" * 1000}},
        "spec": {"nodeName": "n", "containers": [container]},
        "status": {"phase": "Running"},
    }


@pytest.mark.slow
@pytest.mark.parametrize("owner", ["u0", "another"])
async def test_of_pods_little_more_is_kept_than_what_they_request(owner):
    many = {f"example.com/r{number}": "1" for number in range(4_000)}
    large = {"env": [{"name": "A"}] * 20_000, "resources": {"limits": {"cpu": "2", "memory": "1Gi"} | many}}
    reader = JobReader(Listed([a_pod(number, owner, large) for number in range(6)]))
    tracemalloc.start()
    found = await reader.pods_with_resources(a_job(0))
    used = await reader.metrics(a_job(0))
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == (6 if owner == "u0" else 0)
    assert len(used) == 6
    assert kept < 1_000_000
    assert peak < 16_000_000, "one decoded pod has some 6 MB"
    for pod in found:
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        assert (limits["cpu"], limits["memory"], len(limits)) == ("2", "1Gi", 18)

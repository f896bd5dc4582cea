"""A decision that is kept and read again is the same decision; what containers get is not in it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from support.builders import T0, a_job, a_pod, a_service, at, elastic, pods_of, running, seen
from support.replace import replace
from trainshed import plan as planner
from trainshed.api.actions import Snapshot
from trainshed.api.digest import Digest, digest_of, many_texts
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import ROLES, Dependent, Resource
from trainshed.api.trainer_status import TrainerStatus
from trainshed.decisions.again import differences
from trainshed.decisions.documents import OPTIONS, document
from trainshed.decisions.recording import Encoder, decode, recordings, status_after, worth_keeping
from trainshed.frameworks import ALL_VERSIONS
from trainshed.frameworks.mpi import DISCOVER

SECRET = "hunter2"
CONTAINER = {
    "name": "mpi",
    "image": "x",
    "command": ["sh", "-c", SECRET],
    "args": [f"--host-discovery-script=/etc/mpi/{DISCOVER}", SECRET],
    "env": [{"name": "TOKEN", "value": SECRET}, {"name": "OTHER", "valueFrom": {"secretKeyRef": {"name": SECRET}}}],
    "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "A", "value": SECRET}]}},
    "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
}
TEMPLATE = {"metadata": {"annotations": {"vault": SECRET, "scheduling.k8s.io/group-name": "g"}}, "spec": {}}
TEMPLATE["spec"]["containers"] = [CONTAINER]


def a_role(**document) -> Dependent:
    """A Role of the launcher as the cache has it."""
    found = {"metadata": {"labels": {}, "annotations": {}}, **document}
    return Dependent(ROLES, "mnist-launcher", "role-uid", "7", "job-uid", "ml", "mnist", found)


def story() -> list[Snapshot]:
    """What the planner sees of a job: it begins, runs, a worker fails, and a large Role is there."""
    job = a_job("MPIJob", launcher=1, worker=2, restart="ExitCode", template=TEMPLATE, created=T0)
    large = {"content": digest_of({"a": 1}), "texts": many_texts("h", {"a": "b"}), "list": [digest_of([1])]}
    whole = replace(many_texts(None, {}), whole=Digest(b"x", names=("a",)))
    role = a_role(rules=[{"resources": ["pods"], "resourceNames": ["mnist-worker-0"]}], more=large, all=whole)
    failed = a_pod("worker-1", "Failed", code=137, ended=60, container="mpi")
    pods, status = tuple(pods_of(job)), running(job)
    first = seen(job, job_defaults=JobDefaults(init_template=SECRET), services=())
    run = replace(first, pods=pods, status=status, now=at(50), dependents=(role,), answers={"role-uid": role.document})
    after = replace(run, pods=tuple(pods_of(job, failed)), now=at(61), unserved=(ROLES, Resource("/a", "b", "C")))
    fewer = replace(after, pods=after.pods[:0:-1], now=at(62), job=replace(job, version="9"))
    twice = replace(fewer, services=(a_service("worker-0"), a_service("worker-0")), now=at(63))
    return [first, run, after, fewer, twice, replace(twice, services=(), unserved=()), run]


def kept(snapshots: list[Snapshot], **first) -> list[bytes]:
    """Return the lines of the decisions about some snapshots."""
    encoder = Encoder("1.0")
    return [encoder.line(one, planner.plan(one), **(first if one is snapshots[0] else {})) for one in snapshots]


def test_each_decision_is_read_as_it_was_kept_and_made_again():
    snapshots = story()
    found = decode(kept(snapshots, after_restart=True, missed=2))
    assert [(one.n, one.time, one.rule) for one in found] == [
        (n, one.now, planner.plan(one).rule) for n, one in enumerate(snapshots, 1)
    ]
    assert [(one.after_restart, one.missed, one.version) for one in found[:2]] == [(True, 2, "1.0"), (False, 0, "1.0")]
    assert list(differences(found)) == []
    for one, snapshot in zip(found, snapshots, strict=True):
        assert one.saw
        assert (one.saw.pods, one.saw.services, one.saw.status) == (snapshot.pods, snapshot.services, snapshot.status)
        assert one.saw.dependents == snapshot.dependents
        assert status_after(one) == planner.plan(snapshot).status


def test_no_value_that_containers_get_is_kept():
    lines = b"".join(kept(story()))
    assert SECRET.encode() not in lines
    assert {word in lines for word in (b"TOKEN", b"group-name", DISCOVER.encode())} == {True}


def test_only_what_differs_is_written():
    first, run, after, *_ = kept(story())
    assert len(after) < min(len(first), len(run))
    assert list(json.loads(after)["saw"]["pods"]["set"]) == ["worker-1-uid"]


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "JAXJob", "XGBoostJob", "PaddleJob"])
def test_jobs_of_all_kinds_are_kept(kind: str):
    options = elastic() if kind == "PyTorchJob" else None
    job = a_job(kind, worker=2, options=options)
    found = decode(kept([seen(job), seen(job, *pods_of(job))]))
    assert not list(differences(found))
    assert found[1].saw
    assert found[1].saw.job.options == options


def test_the_options_of_all_kinds_are_known():
    made = {type(one.options(one.spec.model_construct(), ())) for one in ALL_VERSIONS.values()}
    assert {kind.__name__ for kind in made} - {"NoneType"} == set(OPTIONS)


def test_a_planner_that_decides_otherwise_is_noticed():
    (found,) = decode(kept(story()[:1]))
    changed = replace(found, plan={**found.plan, "actions": []})
    (other,) = differences([changed])
    assert (other.rule, other.parts) == ("reconcile_replicas", ("actions",))
    (other,) = differences([replace(found, rule="suspend")])
    assert other.parts == ("rule",)


def test_what_cannot_be_read_is_left_out_with_what_needs_it():
    first, second, third, *_ = kept(story())
    torn = decode([first, second[:100], third])
    assert [(one.n, one.unread) for one in torn] == [(1, ""), (3, "a line before it is missing")]
    assert list(differences(torn)) == []
    assert status_after(torn[1]) is None
    head = json.loads(first)
    for change, said in (
        ({"form": 2}, "a later version has written it"),
        ({"kind": "Other"}, "there is no kind Other of kubeflow.org/v1 in this version"),
    ):
        (found,) = decode([json.dumps({**head, "of": {**head["of"], **change}}).encode()])
        assert (found.saw, found.unread) == (None, said)
    (found,) = decode([json.dumps({**head, "saw": {**head["saw"], "pods": 1}}).encode()])
    assert found.saw is None
    assert found.unread
    (found,) = decode([json.dumps({**head, "saw": {**head["saw"], "now": "2026-01-01T00:00:00"}}).encode()])
    assert (found.saw, found.unread) == (None, "it has no time with a zone")
    assert decode([b"[]", b"\xff", b'{"time": "x"}', b'{"time": "2026-01-01T00:00:00"}', b" " * (17 << 20)]) == []
    (found,) = decode([json.dumps({**head, "plan": {"status": {"start": 1}}}).encode()])
    assert status_after(found) is None


def test_of_a_job_that_is_too_large_the_rest_is_kept():
    first, run, *_ = story()
    encoder = Encoder("1.0")
    lines = [encoder.line_without(first, planner.plan(first), missed=1), encoder.line(run, planner.plan(run))]
    without, whole = decode(lines)
    assert (without.saw, without.unread, without.missed) == (None, "the job is too large", 1)
    assert without.plan["actions"]
    assert whole.saw == decode(kept([run]))[0].saw


def test_a_report_alone_is_not_worth_keeping():
    _, run, *_ = story()
    run = replace(run, job=replace(run.job, problems=()))
    plan = planner.plan(run)
    still = replace(plan, actions=(), events=(), status=replace(run.status, trainer=TrainerStatus(T0, step=1)))
    assert not worth_keeping(run, still, plan.rule)
    assert worth_keeping(run, still, "another")
    assert worth_keeping(run, replace(still, status=replace(run.status, start=T0 + timedelta(1))), plan.rule)
    assert worth_keeping(run, planner.plan(story()[0]), plan.rule)


def test_jobs_of_several_recordings_are_distinguished():
    (first, *_), (other,) = kept(story()), kept([seen(replace(a_job(worker=1, name="other"), uid="uid-2"))])
    found = recordings([first, b"torn", other])
    assert [(one.kind, one.namespace, one.name, len(one.decisions)) for one in found] == [
        ("MPIJob", "ml", "mnist", 1),
        ("TFJob", "ml", "other", 1),
    ]


def test_values_of_all_types_are_json():
    assert document({"a": frozenset(("b", "a")), "b": (T0, b"\x01", None)}) == {
        "a": ["a", "b"],
        "b": [T0.isoformat(), "01", None],
    }

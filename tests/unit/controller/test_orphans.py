"""The finalizer of pods whose job is gone is removed, and the right to exec of Roles whose job is gone."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from support.builders import a_pod
from support.harness import Harness, a_spec
from support.jobs import job
from support.replace import replace
from support.virtual_time import clock, in_virtual_time
from support.world import KINDS
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import JOB_TRACKING_FINALIZER, ROLES, Dependent, Pod
from trainshed.client import Conflict, Forbidden, Invalid
from trainshed.controller.orphans import INTERVAL, Orphans
from trainshed.plan.dependents import LAST_APPLIED_HASH

KEEPS = {"trainshed.dev/track-results": "true"}
SPEC = {"spec": {"containers": [{"name": "other", "image": "x"}]}}


async def an_orphaned_pod() -> Harness:
    """A harness whose job is gone with its pods, one of which has the finalizer; the watches have delivered that."""
    harness = Harness(job_defaults=JobDefaults(track_results=True))
    harness.world.submit("TFJob", "mnist", a_spec(Chief=1, Worker=1), KEEPS)
    harness.hear()
    await harness.run_all()
    harness.world.delete("tfjobs")
    for name in harness.world.pods:
        harness.world.confirm_deletion(name)
    harness.hear()
    assert [(pod.name, pod.has_finalizer, pod.deleting) for pod in harness.world.pods.values()] == [
        ("mnist-chief-0", True, True)
    ]
    return harness


def orphans(harness: Harness, *, may_act: bool = True) -> Orphans:
    return Orphans(harness.world, harness.view, lambda: may_act, track_results=True)


async def test_the_finalizer_of_a_pod_whose_job_is_gone_is_removed():
    harness = await an_orphaned_pod()
    await orphans(harness).reconcile()
    assert harness.world.pods == {}
    assert harness.view.orphans() == []


async def test_the_finalizer_of_a_pod_without_owner_is_removed_before_its_deletion():
    harness = Harness(job_defaults=JobDefaults(track_results=True))
    harness.world.submit("TFJob", "mnist", a_spec(Chief=1), KEEPS)
    harness.hear()
    await harness.run_all()
    (name,) = harness.world.pods
    harness.world.patch("pods", name, {"ownerReferences": None})
    harness.hear()
    await orphans(harness).reconcile()
    assert not harness.world.pods[name].has_finalizer


async def test_the_finalizer_of_a_pod_whose_job_is_not_cached_yet_stays():
    harness = Harness(job_defaults=JobDefaults(track_results=True))
    harness.world.submit("TFJob", "mnist", a_spec(Chief=1), KEEPS)
    harness.hear()
    await harness.run_all()
    harness.view.jobs["TFJob"].forgotten(harness.job()["metadata"]["uid"])
    harness.world.confirm_deletion("mnist-chief-0")
    harness.hear()
    assert [pod.name for pod in harness.view.orphans()] == ["mnist-chief-0"]
    await orphans(harness).reconcile()
    assert list(harness.world.pods) == ["mnist-chief-0"]


async def test_only_the_kind_that_the_owner_reference_names_is_read():
    harness = await an_orphaned_pod()
    unreadable = replace(a_pod("other-0", has_finalizer=True, deleting=True), name="a-other-0", owner_kind="JAXJob")
    harness.view.pods.store.changed(replace(unreadable, namespace="ml"))
    read = harness.world.read_job

    async def read_job(framework, namespace, name):
        if framework.kind != "TFJob":
            raise Forbidden(f'{framework.plural} "{name}" is forbidden')
        return await read(framework, namespace, name)

    harness.world.read_job = read_job
    await orphans(harness).reconcile()
    assert harness.world.pods == {}
    assert [pod.name for pod in harness.view.orphans()] == ["a-other-0"], "its operator will release it"


async def hidden_pods(when: str) -> Harness:
    """A harness two of whose pods, which have the finalizer, have lost their label; the watches have delivered that."""
    harness = Harness(job_defaults=JobDefaults(track_results=True))
    harness.world.submit("TFJob", "mnist", a_spec(Worker=2), KEEPS)
    harness.hear()
    await harness.run_all()
    if when == "after its job is deleted":
        harness.world.delete("tfjobs")
        harness.hear()
    for name in harness.world.pods:
        harness.world.hide(name)
    if when == "while the watch is broken":
        harness.lose_events()
        harness.view.pods.store.replaced([], str(harness.world.server.store.version))
    if when == "before its job is deleted":
        harness.hear()
        harness.world.delete("tfjobs")
    harness.hear()
    return harness


@pytest.mark.parametrize(
    "when",
    ["while its job runs", "before its job is deleted", "after its job is deleted", "while the watch is broken"],
)
async def test_the_finalizer_of_a_pod_that_loses_its_label_is_removed(when):
    harness = await hidden_pods(when)
    found = orphans(harness)
    await found.reconcile()
    assert [pod.has_finalizer for pod in harness.world.pods.values()] == [False, False]
    mark = len(harness.world.reads)
    await found.reconcile()
    assert (harness.world.reads[mark:], harness.view.left_pods.hidden.all()) == ([], ())


async def test_a_pod_that_the_operator_finds_without_its_label_is_released_too():
    harness = await hidden_pods("while its job runs")
    for pod in harness.view.left_pods.hidden.all():
        harness.view.left_pods.hidden.discard(pod.uid)  # as after a restart
    await harness.reconcile()
    await orphans(harness).reconcile()
    assert [pod.has_finalizer for pod in harness.world.pods.values()] == [False, False]


@pytest.mark.parametrize("then", ["gets it back", "is gone", "is gone, and another has its name"])
async def test_a_pod_that_loses_its_label_and(then):
    harness = await hidden_pods("while its job runs")
    labels = {"training.kubeflow.org/job-name": "mnist"}
    for name in harness.world.pods:
        if then == "gets it back":
            harness.world.patch("pods", name, {"labels": labels})
        else:
            harness.world.patch("pods", name, {"finalizers": None})
            harness.world.delete("pods", name, 0)
        if "another" in then:
            harness.world.create("pods", {"metadata": {"name": name, "finalizers": [JOB_TRACKING_FINALIZER]}, **SPEC})
    mark = len(harness.world.writes)
    await orphans(harness).reconcile()
    assert (harness.since(mark), harness.view.left_pods.hidden.all()) == ([], ())


@pytest.mark.parametrize("answer", ["first", "last"])
async def test_a_pod_that_the_operator_has_released_is_not_read_whether_the_answer_or_the_event_comes(answer):
    harness = await an_orphaned_pod()
    release = harness.world.release_pod

    async def release_pod(*arguments: object) -> object:
        found = await release(*arguments)
        if answer == "last":
            harness.hear()
        return found

    harness.world.release_pod = release_pod
    mark = len(harness.world.reads)
    await orphans(harness).reconcile()
    harness.hear()
    await orphans(harness).reconcile()
    assert (harness.world.pods, harness.view.left_pods.hidden.all()) == ({}, ())
    assert [path for path in harness.world.reads[mark:] if "/pods/" in path] == []


@pytest.mark.parametrize("seconds", [30, 200])
def test_a_replica_that_does_not_lead_forgets_hidden_pods_when_the_leader_has_seen_to_them(seconds):
    async def story() -> int:
        harness = await hidden_pods("while its job runs")
        running = asyncio.ensure_future(orphans(harness, may_act=False).run())
        await asyncio.sleep(seconds)
        running.cancel()
        return len(harness.view.left_pods.hidden.all())

    assert in_virtual_time(story()) == (2 if seconds == 30 else 0)


async def test_a_conflict_is_retried_in_the_next_round():
    harness = await an_orphaned_pod()
    release, harness.world.release_pod = harness.world.release_pod, refuse
    await orphans(harness).reconcile()
    assert list(harness.world.pods) == ["mnist-chief-0"]
    harness.world.release_pod = release
    await orphans(harness).reconcile()
    assert harness.world.pods == {}


class Refusing(Harness):
    """A cluster with finished pods without an owner; each change of one in `refused` fails, after `seconds`."""

    def __init__(self, seconds: float, *refused: str) -> None:
        super().__init__(job_defaults=JobDefaults(track_results=True))
        self.seconds, self.refused, self.released = seconds, refused, set()
        self.tries = Counter()
        for number, name in enumerate(("mnist-a", "mnist-b")):
            pod = replace(a_pod(f"worker-{number}", has_finalizer=True), namespace=name, name=name, owner="")
            self.view.pods.store.changed(pod)
        self.world.release_pod, self.world.read_pod = self.release, self.read

    async def read(self, _namespace: str, name: str) -> Pod:
        return next(pod for pod in self.view.pods.store.items.values() if pod.name == name)

    async def release(self, _namespace: str, name: str, _patch: object) -> None:
        self.tries[name] += 1
        if name in self.refused:
            await asyncio.sleep(self.seconds)
            raise Conflict("another was first")
        self.released.add(name)


@pytest.mark.parametrize("seconds", [0, 1000], ids=["conflicts", "a webhook that does not answer"])
def test_a_pod_that_cannot_be_released_delays_none_of_another_namespace(seconds):
    async def released() -> set[str]:
        harness = Refusing(seconds, "mnist-a")
        running = asyncio.ensure_future(orphans(harness).run())
        await asyncio.sleep(2.5 * INTERVAL)
        running.cancel()
        return harness.released

    assert in_virtual_time(released()) == {"mnist-b"}


def test_a_pod_that_cannot_be_released_is_tried_ever_less_often():
    async def story() -> int:
        harness = Refusing(0, "mnist-a")
        running = asyncio.ensure_future(orphans(harness).run())
        await asyncio.sleep(3600)
        running.cancel()
        return harness.tries["mnist-a"]

    assert 2 * 12 <= in_virtual_time(story()) <= 2 * 25, "each time with the version, and without"


async def refuse(*_):
    raise Conflict("another was first")


def test_the_search_is_periodic_and_only_by_the_leader():
    async def watch(may_act: bool) -> bool:
        harness = await an_orphaned_pod()
        running = asyncio.ensure_future(orphans(harness, may_act=may_act).run())
        await asyncio.sleep(1.5 * INTERVAL)
        running.cancel()
        return not harness.world.pods

    assert in_virtual_time(watch(True)) is True
    assert in_virtual_time(watch(False)) is False


READ = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["m-config"]}
SEE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
ENTER = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"], "resourceNames": ["m-worker-0"]}
MANY = {**ENTER, "resourceNames": [f"m-worker-{number}" for number in range(2000)]}
APPLIED = {LAST_APPLIED_HASH: "0"}
OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "m", "uid": "job-uid", "controller": True}


def a_role(harness: Harness, rules: list, annotations: dict, *owners: dict, name: str = "m-launcher") -> None:
    """Create a Role of a job, of which the watches have delivered all."""
    labels = {"training.kubeflow.org/job-name": "m"}
    metadata = {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": list(owners)}
    harness.world.create(ROLES, {"metadata": metadata, "rules": rules})
    harness.hear()


@pytest.mark.parametrize(
    ("rules", "annotations", "owners", "left"),
    [
        ([READ, SEE, ENTER], APPLIED, (), [READ]),
        ([SEE, MANY], APPLIED, (), []),
        ([READ], APPLIED, (), None),
        ([READ, {**ENTER, "resources": None}], APPLIED, (), None),
        ([SEE, ENTER], {}, (), None),
        ([READ, ENTER], APPLIED | {f"other-{number}": 100 * "x" for number in range(300)}, (), [READ]),
        ([SEE, ENTER], APPLIED, (OWNER,), None),
    ],
    ids=["an orphan", "a large one", "without pods", "malformed", "others wrote it", "many annotations", "of a job"],
)
async def test_a_role_that_has_lost_its_owner_gives_no_right_to_pods(rules, annotations, owners, left):
    harness = Harness()
    a_role(harness, rules, annotations, *owners)
    for _ in range(2):
        await orphans(harness).reconcile()
    assert harness.world.writes == ([] if left is None else ["patch roles m-launcher"])
    assert harness.world.get(ROLES, "m-launcher")["rules"] == (rules if left is None else left)


@pytest.mark.parametrize(
    ("kind", "name", "taken"), [("TFJob", "other", True), ("MPIJob", "other", True), ("MPIJob", "m", False)]
)
async def test_a_role_that_another_job_owns_gives_no_right_to_pods(kind, name, taken):
    harness = Harness()
    spec = job(kind, name, **({"Launcher": 1} if kind == "MPIJob" else {"Worker": 1}))["spec"]
    harness.world.submit(kind, name, spec)
    harness.hear()
    uid = harness.world.get(KINDS[kind].plural, name)["metadata"]["uid"]
    a_role(harness, [READ, SEE, ENTER], APPLIED, {**OWNER, "kind": kind, "name": name, "uid": uid})
    await orphans(harness).reconcile()
    assert harness.world.writes == (["patch roles m-launcher"] if taken else [])


async def test_a_role_that_is_gone_is_forgotten():
    harness = Harness()
    a_role(harness, [ENTER], APPLIED)
    harness.world.delete(ROLES, "m-launcher")
    await orphans(harness).reconcile()
    assert harness.view.dependents[ROLES].store.items == {}


@pytest.mark.parametrize("end", ["refused", "undone"])
def test_roles_whose_change_is_refused_or_undone_are_tried_ever_less_often_and_with_one_message(end, caplog):
    async def story() -> list[float]:
        harness, tries = Harness(), []
        for number in range(3):
            a_role(harness, [ENTER], APPLIED, name=f"m-{number}")

        async def update(_resource: object, _namespace: str, name: str, _patch: object) -> Dependent:
            tries.append(clock())
            if end == "refused":
                raise Invalid("a policy denies it")
            return next(role for role in harness.view.dependents[ROLES].store.items.values() if role.name == name)

        harness.world.update_dependent = update
        running = asyncio.ensure_future(orphans(harness).run())
        await asyncio.sleep(3600)
        running.cancel()
        return tries

    tries = in_virtual_time(story())
    assert len(tries) <= 3 * 25, "720 searches in an hour"
    assert len([time for time in tries if time > 3000]) >= 3
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == (end == "refused")

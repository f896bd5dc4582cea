"""A snapshot has the job and its objects, and each job that may have changed is enqueued."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders import T0, a_pod, a_service, at
from support.replace import replace
from trainshed.api import parse
from trainshed.api.actions import ApiRefusal
from trainshed.api.framework import JobDefaults
from trainshed.api.job import JobKey
from trainshed.api.objects import CONFIG_MAPS, Dependent
from trainshed.controller.cache import REFUSAL_UPDATE_INTERVAL, Cache
from trainshed.frameworks import FRAMEWORKS
from trainshed.frameworks.tensorflow import TENSORFLOW

KEY = JobKey("ml", "TFJob", "mnist")
CONTAINER = {"name": "tensorflow", "image": "x"}
SPEC = {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": [CONTAINER]}}}}}


class Known:
    """A view and the keys that it has enqueued."""

    def __init__(self) -> None:
        self.woken: list[JobKey] = []
        self.view = Cache(FRAMEWORKS, JobDefaults(), self.woken.append)

    def hear_of_job(self, **fields) -> None:
        document = a_document(**fields)
        self.view.jobs["TFJob"].changed(self.view.record(document, TENSORFLOW))

    def pods(self) -> list[str]:
        snapshot = self.view.snapshot(KEY, T0)
        assert snapshot is not None
        return [pod.name for pod in snapshot.pods]


def a_document(uid="job-uid", version="10", generation=1, spec=SPEC, status=None, **metadata) -> dict:
    meta = {"namespace": "ml", "name": "mnist", "uid": uid, "resourceVersion": version, "generation": generation}
    return {"kind": "TFJob", "metadata": meta | metadata, "spec": spec, "status": status or {}}


@pytest.fixture
def known() -> Known:
    return Known()


def test_a_change_of_one_of_many_labels_is_noticed(known):
    labels = {f"a{number}": "" for number in range(1000)}
    for queued in (False, True):
        more = {"kueue.x-k8s.io/queue-name": "q"} if queued else {}
        known.hear_of_job(version="11" if queued else "10", labels=labels | more)
        assert known.view.snapshot(KEY, T0).job.queued is queued


def lose(known: Known, *names: str) -> None:
    for name in names:
        pod = replace(a_pod("worker-0"), name=name, uid=name)
        known.view.pods.store.changed(pod)
        known.view.pods.store.forgotten(pod.uid)


def test_pods_that_were_lost_while_another_replica_led_are_not_lost_now(known):
    known.hear_of_job()
    lose(known, "mnist-worker-0", "mnist-worker-0")
    known.view.left_pods.forget_lost_pods()
    assert known.view.snapshot(KEY, T0).lost_pods == ()
    lose(known, "mnist-worker-0")
    assert [(pod.name, pod.count) for pod in known.view.snapshot(KEY, T0).lost_pods] == [("mnist-worker-0", 1)]


def test_a_snapshot_contains_the_objects_of_the_job_sorted_by_name(known):
    known.hear_of_job()
    for pod in (a_pod("worker-1"), a_pod("worker-0"), replace(a_pod("ps-0"), owner="another")):
        known.view.pods.store.changed(pod)
    known.view.services.store.changed(a_service("worker-0"))
    snapshot = known.view.snapshot(KEY, T0)
    assert snapshot.job.uid == "job-uid"
    assert [pod.name for pod in snapshot.pods] == ["mnist-worker-0", "mnist-worker-1"]
    assert [service.name for service in snapshot.services] == ["mnist-worker-0"]
    assert snapshot.now == T0


def test_a_job_is_behind_if_another_watch_has_seen_a_version_that_neither_the_cache_nor_its_watch_has(known):
    known.hear_of_job(version="10")
    known.woken.clear()
    for version in ("9", "10"):
        known.view.seen(KEY, version)
    assert (known.woken, known.view.behind(KEY)) == ([], None)
    known.view.seen(KEY, "11")
    assert (known.woken, known.view.behind(KEY)) == ([KEY], TENSORFLOW)
    known.view.jobs["TFJob"].on_bookmark("11")
    assert known.view.behind(KEY) is None, "its watch has come as far: the job is gone, or did not change"


def test_a_job_that_is_behind_has_what_was_read_last(known):
    known.hear_of_job(version="10")
    for version, document, snapshot in (
        ("11", a_document(version="12"), ("job-uid", "12")),
        ("13", a_document(uid="again", version="14"), ("again", "14")),
        ("15", None, None),
        ("16", a_document(uid="third", version="16"), ("third", "16")),
    ):
        known.view.seen(KEY, version)
        known.view.caught_up(KEY, known.view.uid(KEY), document)
        found = known.view.snapshot(KEY, T0)
        assert (found and (found.job.uid, found.job.version)) == snapshot
        assert known.view.behind(KEY) is None
    assert list(known.view.jobs["TFJob"].items) == ["third"]


@pytest.mark.parametrize("answer", [None, a_document(version="10")])
def test_a_job_that_was_created_while_its_predecessor_was_read_stays(known, answer):
    known.hear_of_job(version="10")
    known.view.seen(KEY, "11")
    before = known.view.uid(KEY)
    known.view.jobs["TFJob"].removed(known.view.record(a_document(version="12"), TENSORFLOW))
    known.view.jobs["TFJob"].changed(known.view.record(a_document(uid="again", version="13"), TENSORFLOW))
    known.view.caught_up(KEY, before, answer)
    assert known.view.snapshot(KEY, T0).job.uid == "again"


def test_pods_seen_before_their_job_belong_to_it(known):
    known.view.pods.store.changed(a_pod("worker-0"))
    assert known.view.snapshot(KEY, T0) is None
    known.hear_of_job()
    assert known.pods() == ["mnist-worker-0"]


def test_every_change_of_a_pod_that_the_operator_reads_enqueues_its_job(known):
    known.hear_of_job()
    known.woken.clear()
    known.view.pods.store.changed(a_pod("worker-0"))
    known.view.pods.store.changed(replace(a_pod("worker-0"), version="2", ready=True))
    known.view.pods.store.changed(replace(a_pod("worker-0"), version="3", ready=True))
    assert known.woken == [KEY] * 2
    known.view.pods.store.removed(replace(a_pod("worker-0"), version="4"))
    assert known.woken == [KEY] * 3
    assert known.pods() == []


def test_a_foreign_pod_enqueues_the_job_in_its_label(known):
    known.hear_of_job()
    known.woken.clear()
    known.view.pods.store.changed(replace(a_pod("worker-0"), owner="of-old"))
    assert known.woken == [KEY]
    known.view.pods.store.changed(replace(a_pod("worker-0"), owner="of-old", job="another", version="2"))
    assert known.woken == [KEY]


@pytest.mark.parametrize(
    ("kind", "child"),
    [
        ("pods", a_pod("worker-0", deleting=True, has_finalizer=True)),
        ("services", a_service("worker-0")),
        (CONFIG_MAPS, Dependent(CONFIG_MAPS, "mnist", "u", "1", "job-uid", "ml", "mnist", {})),
    ],
    ids=["pod", "Service", "ConfigMap"],
)
def test_an_object_of_another_namespace_is_none_of_the_job_whatever_owner_it_names(known, kind, child):
    known.hear_of_job()
    known.woken.clear()
    children = getattr(known.view, kind) if isinstance(kind, str) else known.view.dependents[kind]
    for namespace, belongs in (("theirs", False), ("ml", True)):
        found = replace(child, namespace=namespace, uid=namespace)
        children.store.changed(found)
        snapshot = known.view.snapshot(KEY, T0)
        assert bool(snapshot.pods or snapshot.services or snapshot.dependents) is belongs
        assert known.view.orphans() == ([] if belongs or kind != "pods" else [found])
        children.store.replaced([], "9")
        lost = known.view.snapshot(KEY, T0).lost_pods
        assert bool(known.woken) is belongs
        assert bool(lost) is known.view.is_stale(snapshot) is (belongs and kind == "pods")


def test_a_pod_without_owner_no_longer_belongs_to_the_job(known):
    known.hear_of_job()
    known.view.pods.store.changed(a_pod("worker-0"))
    orphan = replace(a_pod("worker-0"), owner="", version="2")
    known.view.pods.store.changed(orphan)
    assert known.pods() == []
    known.view.pods.store.removed(orphan)
    assert known.pods() == []


def test_a_recreated_job_has_no_objects_of_its_predecessor(known):
    known.hear_of_job()
    known.view.pods.store.changed(a_pod("worker-0"))
    known.view.refusal(KEY, ApiRefusal("QuotaExceeded", "full"), T0)
    known.hear_of_job(uid="new-uid", version="20")
    snapshot = known.view.snapshot(KEY, T0)
    assert (snapshot.job.uid, snapshot.pods, snapshot.refusal) == ("new-uid", (), None)
    known.view.jobs["TFJob"].removed(known.view.record(a_document(version="21"), TENSORFLOW))
    assert known.view.snapshot(KEY, T0).job.uid == "new-uid", "the deletion of the old job does not remove the new one"


def test_a_late_event_of_a_deleted_job_does_not_hide_its_successor(known):
    known.hear_of_job()
    known.view.read(KEY, a_document(uid="new-uid", version="20"))
    known.hear_of_job(version="15")
    assert known.view.snapshot(KEY, T0).job.uid == "new-uid"
    known.view.jobs["TFJob"].removed(known.view.record(a_document(version="16"), TENSORFLOW))
    known.hear_of_job(uid="new-uid", version="20")
    assert known.view.snapshot(KEY, T0).job.uid == "new-uid"


def test_a_deleted_job_has_no_snapshot(known):
    known.hear_of_job()
    known.view.refusal(KEY, ApiRefusal("QuotaExceeded", "full"), T0)
    known.view.forget(KEY, "job-uid")
    assert known.view.snapshot(KEY, T0) is None
    assert known.view.known() == []
    assert known.woken == [KEY, KEY]
    known.view.forget(KEY, "job-uid")
    known.hear_of_job(version="30")
    assert known.view.snapshot(KEY, T0).refusal is None


def test_an_own_status_write_replaces_an_older_copy(known):
    known.hear_of_job()
    condition = {"type": "Created", "status": "True", "reason": "r", "message": "m"}
    known.view.stored(KEY, a_document(version="12", status={"conditions": [condition]}))
    known.hear_of_job(version="11")
    assert [str(found.type) for found in known.view.snapshot(KEY, T0).status.conditions] == ["Created"]
    cached = known.view.read(KEY, a_document(version="13"))
    assert known.view.read(KEY, a_document(version="13")) is cached, "it is not parsed again"


def test_only_a_changed_spec_is_parsed_again(known):
    known.hear_of_job()
    replicas = known.view.snapshot(KEY, T0).job.groups
    known.hear_of_job(version="11")
    job = known.view.snapshot(KEY, T0).job
    assert job.version == "11"
    assert job.groups is replicas
    spec = {"tfReplicaSpecs": {"Worker": {**SPEC["tfReplicaSpecs"]["Worker"], "replicas": 5}}}
    known.hear_of_job(version="12", generation=2, spec=spec)
    assert known.view.snapshot(KEY, T0).job.size == 5


@pytest.mark.parametrize(
    ("metadata", "field", "expected"),
    [
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "deleting", True),
        ({"annotations": {"trainshed.dev/restart-scope": "Job"}}, "scope", "Job"),
    ],
)
def test_annotations_and_deletions_without_a_new_generation_are_parsed(known, metadata, field, expected):
    known.hear_of_job()
    known.hear_of_job(version="11", **metadata)
    assert getattr(known.view.snapshot(KEY, T0).job, field) == expected


def test_a_refusal_is_reported_once(known):
    trouble = ApiRefusal("QuotaExceeded", "full")
    assert not known.view.refusal(KEY, None, T0)
    known.hear_of_job()
    assert known.view.refusal(KEY, trouble, T0)
    assert not known.view.refusal(KEY, trouble, T0)
    assert known.view.snapshot(KEY, T0).refusal == trouble
    assert known.view.refusal(KEY, None, T0)
    assert known.view.snapshot(KEY, T0).refusal is None


def test_a_refusal_with_a_new_message_is_reported_rarely(known):
    known.hear_of_job()
    pod = a_pod("worker-0")
    assert known.view.refusal(KEY, ApiRefusal("Forbidden", "request 1", (pod,)), T0)
    later, much_later = at(REFUSAL_UPDATE_INTERVAL - 1), at(REFUSAL_UPDATE_INTERVAL + 1)
    assert not known.view.refusal(KEY, ApiRefusal("Forbidden", "request 2", (pod,)), later)
    assert known.view.snapshot(KEY, T0).refusal.message == "request 1"
    assert known.view.refusal(KEY, ApiRefusal("Forbidden", "request 3", ()), later), "another pod has no label"
    assert known.view.refusal(KEY, ApiRefusal("Invalid", "request 4"), later), "the reason is another one"
    assert not known.view.refusal(KEY, ApiRefusal("Invalid", "request 5"), much_later)
    assert known.view.refusal(KEY, ApiRefusal("Invalid", "request 6"), at(2 * REFUSAL_UPDATE_INTERVAL))


def test_the_refusal_of_a_deleted_job_is_removed(known):
    known.view.refusal(KEY, ApiRefusal("QuotaExceeded", "full"), T0)
    known.hear_of_job()
    assert known.view.snapshot(KEY, T0).refusal is None


QUEUE = {"kueue.x-k8s.io/queue-name": "team"}


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": QUEUE},
        {"annotations": QUEUE},
        {"annotations": {"trainshed.dev/restart-scope": "Replica"}},
        {"annotations": {"trainshed.dev/restart-scope": "no scope"}},
        {"annotations": {"trainshed.dev/services": "Job"}},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {"generation": 2, "spec": {"tfReplicaSpecs": {}}},
    ],
    ids=str,
)
def test_a_change_of_a_job_that_matters_is_noticed_and_so_is_its_end(known, changed):
    before, after = (a_document(version=version, **fields) for version, fields in (("10", {}), ("11", changed)))
    for document in (before, after, {**before, "metadata": {**before["metadata"], "resourceVersion": "12"}}):
        record = known.view.record(document, TENSORFLOW)
        assert record.job == parse.job(document, TENSORFLOW, JobDefaults())
        known.view.jobs["TFJob"].changed(record)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "Running", "Failed", None])), max_size=20))
def test_the_counts_by_state_are_those_of_the_cached_jobs(changes):
    known = Known()
    for version, (name, state) in enumerate(changes, 2):
        conditions = [{"type": state, "status": "True"}] if state else []
        document = a_document(uid=name, name=name, version=str(version), status={"conditions": conditions})
        record = known.view.record(document, TENSORFLOW)
        store = known.view.jobs["TFJob"]
        (store.removed if state is None else store.changed)(record)
    found = Counter((job.job.kind, job.status.current_state) for job in known.view.jobs["TFJob"].items.values())
    assert +known.view.states == found

"""The other objects that a job owns: created, updated and deleted only when needed."""

from __future__ import annotations

import pytest

from support.builders import a_job, a_pod, elastic, plan_for, pods_of, replace, run_policy, running, seen
from trainshed.api.actions import CreateDependent, CreatePod, DeleteDependent, UpdateDependent
from trainshed.api.digest import digest_of
from trainshed.api.objects import AUTOSCALERS, CONFIG_MAPS, ROLES, SERVICE_ACCOUNTS, Dependent, DesiredDependent
from trainshed.api.status import Status
from trainshed.plan import dependents, plan
from trainshed.plan.facts import Facts

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
QUEUE = {"type": "External", "external": {"target": {"type": "AverageValue", "averageValue": "1000m"}}}
JOB = a_job("PyTorchJob", worker=2, options=elastic(1, 3, metrics=(CPU, QUEUE)))
SETTINGS = DesiredDependent(
    CONFIG_MAPS, "mnist-settings", {"data": {"a": "1", "b": "2"}}, (("app", "x"),), (("note", "y"),)
)
ACCOUNT = DesiredDependent(SERVICE_ACCOUNTS, "runner", {}, shared=True)


def facts(*wishes: DesiredDependent, there=(), pods=(), job=JOB, **fields) -> Facts:
    """Return the facts of a job that desires these objects while those exist."""
    snapshot = seen(job, *pods, **fields)
    hooks = replace(snapshot.framework.hooks, dependents=lambda _job, _site, _running: wishes)
    framework = replace(snapshot.framework, hooks=hooks)
    return Facts(replace(snapshot, framework=framework, dependents=tuple(there)))


def stored(wish: DesiredDependent, *, change=None, **fields) -> Dependent:
    """Return a dependent as the server stores it after its creation; `change` edits its document."""
    (made,) = dependents.apply(facts(wish))
    document = {**made.body, "metadata": {**made.body["metadata"], "uid": "u1"}}
    known = {"name": wish.name, "uid": "u1", "version": "7", "owner": JOB.uid, "namespace": "ml", "job": JOB.name}
    found = Dependent(wish.resource, document=change(document) if change else document, **known)
    return replace(found, **fields)


def scaler(**fields) -> Dependent:
    """Return the autoscaler of the job as it was created."""
    (wish,) = dependents.desired(Facts(seen(JOB)))
    return stored(wish, **fields)


def decided(job=JOB, *pods, there=(), **fields):
    """Return the actions of a reconcile, for dependents only."""
    found = plan(replace(seen(job, *pods, **fields), dependents=tuple(there))).actions
    return [action for action in found if isinstance(action, (CreateDependent, UpdateDependent, DeleteDependent))]


def test_what_is_missing_is_made_before_the_pods_that_read_it():
    actions = plan_for(JOB).actions
    kinds = [type(action) for action in actions]
    assert kinds[0] is CreateDependent
    assert CreatePod in kinds


def test_what_is_made_says_whose_it_is():
    (made,) = dependents.apply(facts(SETTINGS))
    assert (made.resource, made.name, made.shared) == (CONFIG_MAPS, "mnist-settings", False)
    metadata = made.body["metadata"]
    assert {key: made.body[key] for key in ("apiVersion", "kind", "data")} == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"a": "1", "b": "2"},
    }
    assert metadata["labels"] == {
        "app": "x",
        "training.kubeflow.org/job-name": "mnist",
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
    }
    assert metadata["annotations"]["note"] == "y"
    assert (metadata["ownerReferences"][0]["uid"], metadata["ownerReferences"][0]["controller"]) == ("job-uid", True)


def test_what_is_as_wished_is_left_in_peace():
    assert dependents.apply(facts(SETTINGS, there=[stored(SETTINGS)])) == ()


def test_what_others_add_is_theirs():
    def added(document):
        metadata = document["metadata"]
        labels = metadata["labels"] | {"team": "a"}
        return {**document, "metadata": {**metadata, "labels": labels, "finalizers": ["x"]}, "status": {"seen": 1}}

    assert dependents.apply(facts(SETTINGS, there=[stored(SETTINGS, change=added)])) == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda document: {**document, "data": {"a": "1", "b": "3"}},
        lambda document: {**document, "data": {"a": "1"}},
        lambda document: {key: value for key, value in document.items() if key != "data"},
        lambda document: {**document, "metadata": {**document["metadata"], "labels": {}}},
        lambda document: {**document, "metadata": {**document["metadata"], "annotations": None}},
    ],
    ids=["value", "key", "all", "labels", "annotations"],
)
def test_what_was_changed_is_mended_where_it_was_seen(change):
    (mended,) = dependents.apply(facts(SETTINGS, there=[stored(SETTINGS, change=change)]))
    assert isinstance(mended, UpdateDependent)
    assert (mended.patch["metadata"]["uid"], mended.patch["metadata"]["resourceVersion"]) == ("u1", "7")
    assert mended.patch["metadata"]["labels"]["app"] == "x"
    assert mended.patch["data"] == {"a": "1", "b": "2"}


def test_what_is_no_longer_wished_for_within_it_is_taken_out():
    fewer = replace(SETTINGS, content={"data": {"a": "1"}})
    (mended,) = dependents.apply(facts(fewer, there=[stored(SETTINGS)]))
    assert mended.patch["data"] == {"a": "1", "b": None}
    answer = stored(fewer, change=lambda document: {**document, "data": {"a": "1", "b": "2"}})
    assert dependents.is_applied(mended.patch, answer)
    assert dependents.apply(facts(fewer, there=[answer])) == (), "as far as the next plan sees"
    assert not dependents.is_applied(mended.patch, stored(SETTINGS))


def test_what_goes_already_is_neither_mended_nor_deleted_nor_made_again():
    going = stored(SETTINGS, change=lambda document: {**document, "data": {}}, deleting=True)
    assert dependents.apply(facts(SETTINGS, there=[going])) == ()
    assert dependents.apply(facts(there=[scaler(deleting=True)])) == ()
    assert dependents.prune(facts(there=[scaler(deleting=True)])) == ()


def test_of_what_is_no_longer_wished_for_only_the_passing_goes():
    there = (stored(SETTINGS), scaler())
    assert dependents.apply(facts(there=there)) == (DeleteDependent(AUTOSCALERS, "mnist", "u1"),)
    assert dependents.prune(facts(SETTINGS, there=there)) == (DeleteDependent(AUTOSCALERS, "mnist", "u1"),)


def test_kinds_of_one_name_are_not_mistaken_for_each_other():
    same_name = replace(SETTINGS, name="mnist")
    actions = dependents.apply(facts(same_name, there=[scaler()]))
    assert [type(action) for action in actions] == [CreateDependent, DeleteDependent]


def test_what_may_be_somebody_elses_is_asked_for_only_when_pods_are_made():
    (made,) = dependents.apply(facts(ACCOUNT, pods=[a_pod("worker-0", container="pytorch")]))
    assert (made.name, made.shared) == ("runner", True)
    assert dependents.apply(facts(ACCOUNT, pods=pods_of(JOB))) == ()
    assert dependents.apply(facts(replace(ACCOUNT, shared=False), pods=pods_of(JOB))) != ()


def test_an_autoscaler_is_there_while_the_job_may_have_pods():
    assert [type(action) for action in decided()] == [CreateDependent]
    assert decided(JOB, *pods_of(JOB), there=[scaler()]) == []
    gone = [DeleteDependent(AUTOSCALERS, "mnist", "u1")]
    paused = replace(JOB, policy=run_policy(suspend=True))
    assert decided(paused, there=[scaler()]) == gone
    status = plan(seen(paused)).status
    assert decided(paused, there=[scaler()], status=status) == gone
    assert decided(paused, status=status) == []


def test_an_autoscaler_goes_with_the_verdict_and_never_comes_back():
    won = pods_of(JOB, a_pod("worker-1", "Succeeded", code=0, container="pytorch"))
    over = plan_for(JOB, *won, status=running(JOB)).status
    assert over.over
    assert decided(JOB, *won, there=[scaler()], status=over) == [DeleteDependent(AUTOSCALERS, "mnist", "u1")]
    assert decided(JOB, *won, status=over) == []


def test_an_autoscaler_goes_with_its_metrics():
    without = replace(JOB, options=elastic(1, 3))
    assert decided(without, *pods_of(JOB), there=[scaler()]) == [DeleteDependent(AUTOSCALERS, "mnist", "u1")]
    assert decided(without) == []


def test_an_autoscaler_as_the_server_spells_it_is_left_in_peace():
    def spelled(document):
        metrics = [CPU, {"type": "External", "external": {"target": {"type": "AverageValue", "averageValue": "1"}}}]
        spec = {key: value for key, value in document["spec"].items() if value is not None} | {"metrics": metrics}
        return {**document, "spec": spec, "status": {"currentReplicas": 2}}

    assert decided(JOB, *pods_of(JOB), there=[scaler(change=spelled)]) == []


def test_an_autoscaler_that_was_changed_is_put_right():
    def changed(document):
        return {**document, "spec": document["spec"] | {"maxReplicas": 9, "behavior": {"scaleUp": {}}}}

    (mended,) = decided(JOB, *pods_of(JOB), there=[scaler(change=changed)])
    assert mended.patch["spec"]["maxReplicas"] == 3
    assert mended.patch["spec"]["behavior"] is None
    assert mended.patch["spec"]["metrics"] == [CPU, QUEUE]


def test_a_job_that_is_going_is_left_to_the_garbage_collector():
    assert decided(replace(JOB, deleting=True), there=[scaler()], status=Status()) == []


@pytest.mark.parametrize(
    ("actual", "wanted"),
    [
        ("a", "a"),
        (None, None),
        ("1", "1000m"),
        ("1", 1),
        ("1Gi", 2**30),
        ("500m", 0.5),
        (True, True),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({}, {"a": None}),
        ({}, {"a": {}, "b": [], "c": 0, "d": "", "e": False}),
        ([1, 2], (1, 2)),
        ([{"a": "1k", "more": 1}], [{"a": "1000"}]),
    ],
)
def test_what_says_the_same_or_more_covers(actual, wanted):
    assert dependents.covers(actual, wanted)


@pytest.mark.parametrize(
    ("actual", "wanted"),
    [
        ("a", "b"),
        ("1", "1001m"),
        ("a", "1"),
        ("1", "a"),
        (None, "a"),
        ("a", None),
        ("True", True),
        ({}, {"a": 1}),
        ({"a": 1}, {"a": None}),
        ([], {"a": 1}),
        (None, {"a": 1}),
        ([1], [1, 2]),
        ([1, 2], [1]),
        ([2, 1], [1, 2]),
        ("12", ["1", "2"]),
        (None, ["a"]),
        ({}, []),
        ([], {}),
    ],
)
def test_what_says_less_or_something_else_does_not(actual, wanted):
    assert not dependents.covers(actual, wanted)


PODS_OF_TWO = [{"resources": ["pods"], "resourceNames": ["a", "b"]}]


@pytest.mark.parametrize(
    ("there", "wanted", "answer"),
    [
        (PODS_OF_TWO, [{"resources": ["pods"], "resourceNames": ["a"]}], True),
        (PODS_OF_TWO, [], True),
        (PODS_OF_TWO, [{"resources": ["pods"], "resourceNames": ["a", "b", "c"]}], False),
        (None, PODS_OF_TWO, False),
        (digest_of(PODS_OF_TWO), [], None),
        ([{"resources": ["pods"], "resourceNames": digest_of(["a", "b"])}], [], None),
    ],
)
def test_an_update_says_whether_it_takes_names_out_of_a_role_unless_the_role_is_too_large(there, wanted, answer):
    role = stored(DesiredDependent(ROLES, "mnist-launcher", {}), change=lambda document: {**document, "rules": there})
    assert dependents.takes_back(role, {"rules": wanted}) is answer

"""Actions are executed concurrently, reported and cached; a definite refusal stops those that have not started."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest

from support.harness import KEY, Harness, a_spec
from trainshed.api.actions import (
    Action,
    ApiRefusal,
    CreateDependent,
    CreatePod,
    CreateService,
    CreateSshSecret,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    DeleteService,
    ReleasePod,
    UpdateDependent,
)
from trainshed.api.framework import JobDefaults
from trainshed.api.objects import AUTOSCALERS, CONFIG_MAPS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, VOLCANO_GROUPS
from trainshed.client import (
    Conflict,
    Forbidden,
    Invalid,
    NameConflict,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from trainshed.controller.executor import TRAITS, Executor
from trainshed.controller.metrics import COUNTERS
from trainshed.plan import plan
from trainshed.plan.builders import owner_reference

LABELS = {"training.kubeflow.org/job-name": "mnist"}


class Scene(Harness):
    """A harness whose actions the test executes."""

    def __init__(self, workers: int = 2, job_defaults: JobDefaults | None = None) -> None:
        super().__init__(a_spec(Worker=workers), job_defaults)
        self.executor = Executor(self.world, self.view, self.recorder, self.metrics, plan)

    def planned(self) -> list:
        return list(plan(self.snapshot()).actions)

    async def run(self, *actions):
        """Return the error, if an action failed."""
        return (await self.outcome(*actions)).error

    async def outcome(self, *actions):
        return await self.executor.run(self.snapshot(), actions)

    def counted(self) -> dict[str, float]:
        value, labels = self.metrics.registry.get_sample_value, {"job_namespace": "ml", "framework": "tensorflow"}
        return {name: found for name in COUNTERS if (found := value(f"{name}_total", labels))}

    def a_config_map(self, name: str, kind: str = "ConfigMap") -> dict:
        """Return a ConfigMap of the job as it is sent."""
        metadata = {"name": name, "ownerReferences": [owner_reference(self.snapshot().job)], "labels": LABELS}
        return {"kind": kind, "metadata": metadata, "data": {"a": "1"}}

    async def events(self) -> list[str]:
        await self.recorder.flush()
        return [write for write in self.world.writes if write.startswith("event")]


async def test_created_objects_are_cached_and_reported():
    scene = Scene()
    assert await scene.run(*scene.planned()) is None
    assert [pod.name for pod in scene.snapshot().pods] == ["mnist-worker-0", "mnist-worker-1"]
    assert len(scene.snapshot().services) == 2
    assert await scene.events() == ["event SuccessfulCreateService", "event SuccessfulCreatePod"]


async def test_ssh_keys_are_created_before_the_pods_and_never_reported():
    scene = Scene(workers=1)
    body = {"metadata": {"name": "mnist-ssh"}, "type": "kubernetes.io/ssh-auth"}
    for _ in range(2):
        assert await scene.run(*scene.planned(), CreateSshSecret("mnist-ssh", body)) is None
    writes = [write for write in scene.world.writes if write.startswith("create")]
    assert writes[0] == "create secret mnist-ssh"
    assert sorted(scene.world.get("secrets", "mnist-ssh")["data"]) == ["ssh-privatekey", "ssh-publickey"]
    assert "data" not in body, "the planner never gets a key"
    assert await scene.events() == ["event SuccessfulCreateService", "event SuccessfulCreatePod"]


@pytest.mark.fault("A5")
async def test_dependents_are_created_before_the_pods_that_mount_them():
    scene = Scene()
    shared = CreateDependent(CONFIG_MAPS, "mnist-env", scene.a_config_map("mnist-env"))
    assert await scene.run(*scene.planned(), shared) is None
    assert scene.world.writes[0] == "create configmaps mnist-env"

    other = Scene()
    other.world.fail("create_dependent", Forbidden("not here"))
    assert str(await other.run(*other.planned(), shared)) == "not here"
    assert other.world.made == []


async def test_a_dependent_of_v1_gets_the_labels_by_which_watches_select():
    scene = Scene()
    wanted = CreateDependent(CONFIG_MAPS, "mnist-env", scene.a_config_map("mnist-env"))
    scene.world.create(CONFIG_MAPS, scene.a_config_map("mnist-env"))
    scene.world.patch(CONFIG_MAPS, "mnist-env", {"labels": None})
    assert await scene.run(wanted) is None
    assert scene.world.get(CONFIG_MAPS, "mnist-env")["metadata"]["labels"] == LABELS
    before = len(scene.world.writes)
    assert await scene.run(wanted) is None
    assert scene.world.writes[before:] == ["create configmaps mnist-env"], "it has its labels"


@pytest.mark.fault("B13")
async def test_a_definite_refusal_stops_the_creation_of_further_pods():
    scene = Scene(workers=50)
    scene.world.set_quota(0)
    planned = scene.planned()
    assert sum(isinstance(action, CreatePod) for action in planned) == 50
    error = await scene.run(*planned)
    assert error.reason == "QuotaExceeded"
    assert sum(write.startswith("create pod ") for write in scene.world.writes) == 1
    assert await scene.events() == ["event SuccessfulCreateService", "event FailedCreatePod"]


@pytest.mark.parametrize("reverse", [False, True])
async def test_the_reported_error_does_not_depend_on_the_order(reverse):
    scene = Scene(workers=3)
    for name in ("mnist-worker-1", "mnist-worker-2"):
        scene.world.take_name(name)
    error = await scene.run(*sorted(scene.planned(), key=str, reverse=reverse))
    assert str(error).startswith("pod mnist-worker-1 ")


async def test_the_outcome_says_what_was_done_and_of_how_much():
    scene = Scene(workers=3)
    assert (await scene.outcome()).message == ""
    scene.world.set_quota(1)
    planned = scene.planned()
    refused = await scene.outcome(*planned)
    assert (refused.error.reason, refused.message) == ("QuotaExceeded", "created 3 Services, created 1 of 3 pods")
    pod, job = scene.snapshot().pods[0], scene.snapshot().job
    group = CreateDependent(CONFIG_MAPS, "mnist-config", scene.a_config_map("mnist-config"))
    gone = await scene.outcome(group, DeletePod(pod.name, pod.uid), DeleteJob(job.uid, "older"))
    assert gone.message == "created 1 ConfigMap, deleted 1 pod, deleted 0 of 1 job"


async def test_deleted_objects_are_terminating_or_gone_in_the_cache():
    scene = Scene()
    await scene.run(*scene.planned())
    scene.world.set_pod("mnist-worker-0", "Running")
    scene.hear()
    first, second = scene.snapshot().pods
    service = scene.snapshot().services[0]
    gone = [DeletePod(pod.name, pod.uid) for pod in (first, second)]
    assert await scene.run(*gone, DeleteService(service.name, service.uid)) is None
    assert [pod.name for pod in scene.snapshot().pods if not pod.deleting] == []
    scene.hear()
    assert [(pod.name, pod.deleting) for pod in scene.snapshot().pods] == [("mnist-worker-0", True)]
    assert len(scene.snapshot().services) == 1
    assert {"event SuccessfulDeletePod", "event SuccessfulDeleteService"} <= set(await scene.events())


async def test_a_new_object_of_the_same_name_is_not_deleted():
    scene = Scene()
    await scene.run(*scene.planned())
    await scene.run(DeletePod("mnist-worker-0", "the uid of one that is gone"))
    assert "mnist-worker-0" in scene.world.pods


async def test_a_changed_pod_is_not_deleted_at_an_old_version_and_no_event_is_written():
    scene = Scene()
    await scene.run(*scene.planned())
    pod = scene.snapshot().pods[0]
    scene.world.set_pod(pod.name, "Succeeded")
    error = await scene.run(DeletePod(pod.name, pod.uid, version=pod.version))
    assert isinstance(error, Conflict)
    assert not scene.world.pods[pod.name].deleting
    assert "event FailedDeletePod" not in await scene.events()
    assert await scene.run(DeletePod(pod.name, pod.uid)) is None


async def test_a_deleted_job_is_removed_and_counted_once():
    scene = Scene()
    job = scene.snapshot().job
    await scene.run(DeleteJob(job.uid, job.version))
    assert scene.view.snapshot(KEY, scene.world.now) is None
    assert scene.counted() == {"training_operator_jobs_deleted": 1}
    assert await scene.events() == ["event SuccessfulDeleteJob"]


async def test_a_job_that_another_has_deleted_is_neither_counted_nor_reported():
    scene = Scene()
    job = scene.snapshot().job
    scene.world.delete("tfjobs")
    with pytest.raises(NotFound):
        await scene.run(DeleteJob(job.uid, job.version))
    assert scene.counted() == {}
    assert await scene.events() == []


async def test_a_changed_job_is_not_deleted_and_no_event_is_written():
    scene = Scene()
    job = scene.snapshot().job
    error = await scene.run(DeleteJob(job.uid, version="older"))
    assert isinstance(error, Conflict)
    assert scene.view.snapshot(KEY, scene.world.now).job == job
    assert await scene.events() == []


@pytest.mark.parametrize(
    ("refusal", "before", "services"),
    [(Forbidden("no"), None, 1), (Forbidden("no"), "Forbidden", 0), (NameConflict("taken"), "NameConflict", 40)],
)
async def test_services_are_not_created_for_pods_that_are_refused(refusal, before, services):
    scene = Scene(workers=40)
    if before:
        scene.view.refusal(KEY, ApiRefusal(before, "no"), scene.now())
    scene.world.fail("create_pod", refusal, times=1000)
    actions = [action for action in scene.planned() if isinstance(action, (CreateService, CreatePod))]
    assert isinstance(await scene.run(*actions), type(refusal))
    assert len(scene.world.names("services")) == services


async def test_services_and_pods_are_created_concurrently():
    scene = Scene()
    kinds = {type(action) for action in scene.planned()}
    assert kinds == {CreatePod, CreateService}
    assert await scene.run() is None


async def test_only_the_deletion_of_a_pod_group_has_v1s_event():
    scene = Scene(job_defaults=JobDefaults(gang_scheduler="volcano"))
    await scene.run(*scene.planned())
    (group,) = scene.snapshot().dependents
    assert (group.resource, scene.world.made) == (VOLCANO_GROUPS, [])
    gone = [DeleteDependent(VOLCANO_GROUPS, group.name, group.uid), DeleteDependent(AUTOSCALERS, "mnist", "none")]
    assert await scene.run(*gone) is None
    assert scene.snapshot().dependents == ()
    assert await scene.events() == ["event SuccessfulDeletePodGroup"]
    assert scene.counted() == {"created_pod_groups": 1, "deleted_pod_groups": 1}


async def test_successful_and_failed_actions_are_counted():
    scene = Scene()
    scene.world.set_quota(1)
    assert await scene.run(*scene.planned()) is not None

    for verb in ("create_service", "delete_job"):
        scene.world.fail(verb, Forbidden("not here"))
    services = [action for action in Scene().planned() if isinstance(action, CreateService)]
    await scene.run(services[0])
    await scene.run(DeleteJob(scene.snapshot().job.uid, scene.snapshot().job.version))
    await scene.run(DeletePod("mnist-worker-0", scene.snapshot().pods[0].uid))
    assert scene.counted() == {
        "created_pods": 1,
        "deleted_pods": 1,
        "succeeded_service_creation": 2,
        "failed_service_creation": 1,
    }
    events = await scene.events()
    assert {"event FailedCreatePod", "event FailedCreateService", "event FailedDeleteJob"} <= set(events)
    assert "event SuccessfulDeleteJob" not in events


def test_every_type_of_action_is_executed():
    assert set(TRAITS) == set(get_args(Action))


def a_dependent(resource) -> CreateDependent:
    return CreateDependent(resource, "mnist-x", {})


UPDATE = UpdateDependent(CONFIG_MAPS, "mnist-x", {"metadata": {"uid": "u", "resourceVersion": "1"}})
#: Actions that fail, by the operation of the client that is refused.
FAILING = {
    "a ConfigMap": ("create_dependent", a_dependent(CONFIG_MAPS)),
    "a Role": ("create_dependent", a_dependent(ROLES)),
    "a RoleBinding": ("create_dependent", a_dependent(ROLE_BINDINGS)),
    "a ServiceAccount": ("create_dependent", a_dependent(SERVICE_ACCOUNTS)),
    "an autoscaler": ("create_dependent", a_dependent(AUTOSCALERS)),
    "an update": ("update_dependent", UPDATE),
    "a Secret": ("create_secret", CreateSshSecret("mnist-ssh", {"metadata": {"name": "mnist-ssh"}})),
    "a Service": ("create_service", None),
    "a pod": ("create_pod", None),
    "the deletion of a Service": ("delete_service", None),
    "the deletion of a dependent": ("delete_dependent", DeleteDependent(AUTOSCALERS, "mnist", "u")),
    "the finalizer of a pod": ("release_pod", None),
}
ERRORS = [Forbidden("no"), Invalid("no"), NameConflict("no"), Conflict("no"), Unavailable("no"), TooManyRequests("no")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("what", FAILING)
async def test_pods_are_deleted_whatever_else_fails(what, error):
    scene = Scene(workers=4)
    everything = scene.planned()
    await scene.run(*everything[:-1])
    pods, services = scene.snapshot().pods, scene.snapshot().services
    verb, action = FAILING[what]
    scene.world.fail(verb, error, times=1000)
    deletions = [DeleteService(service.name, service.uid) for service in services]
    releases = [ReleasePod(pods[0].name, pods[0].uid, pods[0].version, ())]
    service = next(action for action in everything if isinstance(action, CreateService))
    other = {**service.body, "metadata": {**service.body["metadata"], "name": "other"}}
    extra = [CreateService("other", other)] if what == "a Service" else []
    job = scene.snapshot().job
    wanted = [*filter(None, (action,)), *extra, *everything[-1:], *releases, *deletions]
    wanted += [DeletePod(pod.name, pod.uid) for pod in pods] + [DeleteJob(job.uid, job.version)]
    outcome = await scene.outcome(*wanted)
    assert outcome.error is error
    deleted = {write.split()[-1] for write in scene.world.writes if write.startswith("delete pod")}
    assert deleted == {pod.name for pod in pods}
    if verb != "delete_service":
        assert sum(write.startswith("delete service") for write in scene.world.writes) == len(services)
    made = [write for write in scene.world.writes if write.startswith("create pod")][len(pods) :]
    guards = verb in ("create_dependent", "update_dependent", "create_secret", "create_pod")
    assert made == ([] if guards else [f"create pod {everything[-1].name}"]), "no pod without what it mounts"
    assert not any(write.startswith("delete job") for write in scene.world.writes), "the job is kept to try again"


async def test_one_pod_that_may_not_be_deleted_does_not_keep_the_others():
    scene = Scene(workers=40)
    await scene.run(*scene.planned())
    pods, delete = scene.snapshot().pods, scene.world.delete_pod

    async def guarded(namespace, name, *rest):
        if name == pods[0].name:
            raise Forbidden("protected")
        return await delete(namespace, name, *rest)

    scene.world.delete_pod = guarded
    outcome = await scene.outcome(*(DeletePod(pod.name, pod.uid) for pod in pods))
    assert (str(outcome.error), outcome.message) == ("protected", "deleted 39 of 40 pods")


async def test_a_job_larger_than_its_quota_gets_few_refusals_for_each_pod_and_a_large_one_starts_slowly_once():
    scene, under_way, most = Scene(300), 0, []
    call = scene.world.create_pod

    async def create_pod(*arguments: object) -> object:
        nonlocal under_way
        under_way += 1
        most.append(under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return await call(*arguments)

    scene.world.create_pod = create_pod
    scene.world.set_quota(1)
    await scene.reconcile()
    assert len(most) == 3
    await scene.reconcile()
    assert len(most) == 4, "it was refused, so the first is alone"
    scene.world.set_quota(1000)
    for fewest, largest in ((2, 4), (11, 12)):
        most.clear()
        await scene.reconcile()
        assert fewest <= max(most[:12]) <= largest

"""Executes the actions of a plan against the API server."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from enum import IntEnum
from functools import partial
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from trainshed.api import patches
from trainshed.api.actions import (
    Action,
    CreateDependent,
    CreatePod,
    CreateService,
    CreateSshSecret,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    DeleteService,
    Event,
    EventType,
    Plan,
    ReleasePod,
    Snapshot,
    UpdateDependent,
)
from trainshed.api.job import Document
from trainshed.api.objects import Phase, Resource
from trainshed.client import (
    Altered,
    ApiError,
    Client,
    Conflict,
    LabelRemoved,
    NameConflict,
    NotFound,
    PreviousJobTerminating,
    Reverted,
)
from trainshed.client.finalizers import release_unselected, require_released
from trainshed.client.flow_control import DEFINITE, run_concurrently, run_with_slow_start
from trainshed.client.withdrawal import Withdrawn
from trainshed.plan import dependents
from trainshed.plan.messages.writes import action_events, altered, success_events, waiting_for_previous_job

from .cache import Cache
from .creations import create
from .deletions import Deletions, Task
from .dependent_updates import DependentDebounce
from .events import EventRecorder
from .observer import Observer
from .plan_watch import PlanChecks, PlanWatch, Watched, is_role_update
from .undone_writes import RepeatedWrites, stops_others


class Group(IntEnum):
    """The groups of actions.

    Services and pods are created after the dependents, which pods mount, if these succeed; each group has its own slow
    start: that a Service can be created does not mean that pods can be. Deletions need nothing of that and run at the
    same time: pods must give back their resources although a ConfigMap cannot be created. So do updates of Roles, which
    take rights back. The job is deleted last.
    """

    DEPENDENTS = 0
    SERVICES = 1
    PODS = 2
    DELETIONS = 3
    JOB = 4


class Traits(msgspec.Struct, frozen=True):
    """The group of a type of action, and its words in the log: what was done, to what.

    Dependents are named by their kind.
    """

    group: Group
    verb: str
    noun: str = ""


TRAITS: Mapping[type[Action], Traits] = MappingProxyType(
    {
        CreateDependent: Traits(Group.DEPENDENTS, "created"),
        UpdateDependent: Traits(Group.DEPENDENTS, "updated"),
        CreateSshSecret: Traits(Group.DEPENDENTS, "created", "Secret"),
        CreateService: Traits(Group.SERVICES, "created", "Service"),
        CreatePod: Traits(Group.PODS, "created", "pod"),
        DeletePod: Traits(Group.DELETIONS, "deleted", "pod"),
        ReleasePod: Traits(Group.DELETIONS, "removed the finalizer of", "pod"),
        DeleteService: Traits(Group.DELETIONS, "deleted", "Service"),
        DeleteDependent: Traits(Group.DELETIONS, "deleted"),
        DeleteJob: Traits(Group.JOB, "deleted", "job"),
    }
)


class Outcome(msgspec.Struct, frozen=True):
    """The error that decides, if an action failed, and what was done: `created 2 Services, created 1 of 2 pods`.

    `changed` is whether any action succeeded, `holds` whether anything but creations failed, which holds resources. If
    the plan was `superseded` not all was created, and the job has to be planned again at once.
    """

    error: ApiError | None = None
    message: str = ""
    changed: bool = False
    holds: bool = False
    superseded: bool = False


class _Record(msgspec.Struct, frozen=True):
    """The actions of one reconcile that have succeeded so far, and the Events of those that failed.

    `reverted` writes stop no other action: most fields that webhooks set, such as labels, matter to no pod.
    """

    done: list[Action] = msgspec.field(default_factory=list)
    failures: list[Event] = msgspec.field(default_factory=list)
    reverted: list[ApiError] = msgspec.field(default_factory=list)


class Executor:
    """Executes the actions of one reconcile; `plan` is the planner, which is asked meanwhile what is still wanted."""

    def __init__(
        self, client: Client, cache: Cache, recorder: EventRecorder, metrics: Observer, plan: Callable[[Snapshot], Plan]
    ) -> None:
        self._client = client
        self._cache = cache
        self._recorder = recorder
        self._metrics = metrics
        self._writes, self._deletions, self._plan_checks = RepeatedWrites(_words), Deletions(), PlanChecks(plan)
        self.updates = DependentDebounce()

    def step_down(self) -> None:
        """Forget what was written: another replica writes now."""
        self._writes.clear()
        self._deletions.clear()
        self.updates.clear()

    async def run(self, snapshot: Snapshot, actions: Iterable[Action], due: datetime | None = None) -> Outcome:
        """Execute the actions and return their outcome, as their groups say. The next plan is `due` at this time.

        Raises `NotFound` if the job was to be deleted and another has deleted it.
        """
        wanted, record = tuple(actions), _Record()
        if not wanted:
            return Outcome()

        tasks: dict[Group, list[Task]] = {}
        deletions: dict[Hashable, list[Task]] = {}
        for action in wanted:
            group, task = TRAITS[type(action)].group, partial(self._run, snapshot, action, record)
            if group is Group.DELETIONS or is_role_update(action):
                deletions.setdefault(_words(action), []).append(task)
            else:
                tasks.setdefault(group, []).append(task)
        watch = PlanWatch(self._plan_checks, self._cache, Watched(snapshot, wanted, record.done, due), self._take_back)
        first, services, pods = (tasks.get(group, ()) for group in (Group.DEPENDENTS, Group.SERVICES, Group.PODS))
        make = partial(create, first, services, pods, None if snapshot.refusal else _running(snapshot))
        calls = [partial(watch.withdrawal.run, make)]
        if deletions:
            calls.append(partial(self._deletions.run, snapshot.job.uid, deletions))
        try:
            async with watch.running():
                made, *others = await run_concurrently(calls)
            deleted = others[0] if others else []
            kept = deleted or (() if made else await _delete_job(tasks))
            errors = [*made, *kept]
        finally:
            for event, names in success_events(snapshot, record.done).items():
                self._recorder.record(snapshot.job, event, names)
            for event in record.failures:
                self._recorder.record(snapshot.job, event)
        summary = _summary(Counter(map(_words, wanted)), Counter(map(_words, record.done)))
        error = min(errors or record.reverted, key=_error_order, default=None)
        return Outcome(error, summary, bool(record.done), bool(kept), watch.withdrawal.done)

    async def _take_back(self, snapshot: Snapshot, action: UpdateDependent) -> bool:
        """Take names out of a Role while a plan is being carried out; return False if it is to be tried again."""
        record = _Record()
        with suppress(ApiError):
            await self._run(snapshot, action, record)
        for event in record.failures:
            self._recorder.record(snapshot.job, event)
        return bool(record.done)

    async def _run(self, snapshot: Snapshot, action: Action, record: _Record) -> None:
        try:
            self._writes.require_lasting(snapshot, action)
            is_contested = self._writes.is_contested(snapshot, action)
            await self._do(snapshot, await self._without_version(snapshot, action) if is_contested else action)
        except Withdrawn:  # it is planned again, if it is still wanted
            return
        except ApiError as error:
            with suppress(Withdrawn):
                await self._failed(snapshot, action, record, error)
            return
        self._writes.wrote(snapshot, action)
        if isinstance(action, UpdateDependent):
            self.updates.wrote(snapshot.job.key, action)
        self._metrics.count_action(snapshot, action, success=True)
        record.done.append(action)

    async def _failed(self, snapshot: Snapshot, action: Action, record: _Record, failure: ApiError) -> None:
        """Note that an action has failed; raises the error that counts, unless it is one that stops no other action."""
        if isinstance(action, DeleteJob) and isinstance(failure, NotFound):
            raise failure  # another has deleted it
        error = self._writes.failed(snapshot, action, failure)
        if isinstance(error, Altered) and error.pod:
            self._cache.left_pods.spoiled(error.pod)
        if isinstance(error, LabelRemoved) and isinstance(action, CreatePod):
            self._cache.left_pods.sought(snapshot, action.name, error.pod)
        self._cache.left_pods.found(await release_unselected(self._client, error))
        self._metrics.count_action(snapshot, action, success=False)
        record.failures.extend(_failure_events(snapshot, action, error))
        if not isinstance(error, Reverted) or stops_others(action, error):
            raise error from error.__cause__
        record.reverted.append(error)

    async def _without_version(self, snapshot: Snapshot, action: Action) -> Action:
        """Return the action without the version that it requires: others change the object all the time.

        A pod is read before; raises `Conflict` if it is not in the state for which the action was planned.
        """
        match action:
            case UpdateDependent(patch=patch):
                return replace(action, patch=patches.without_version(patch))
            case DeleteJob():  # it has just been read
                return replace(action, version="")
            case DeletePod(uid=uid) | ReleasePod(uid=uid) if action.version:
                found = await self._client.read_pod(snapshot.job.namespace, action.name)
                if found is None or found.uid != uid:
                    return action
                if not any(pod.uid == uid and pod.is_in_state_of(found) for pod in snapshot.pods):
                    self._cache.pods.on_delete_response(uid, found)
                    raise Conflict(f"pod {action.name} is not in the state any more in which it was observed")
                if isinstance(action, ReleasePod):
                    return replace(action, version="", finalizers=found.finalizers)
                return replace(action, version="")
        return action

    async def _do(self, snapshot: Snapshot, action: Action) -> None:
        namespace, pods, services = snapshot.job.namespace, self._cache.pods.store, self._cache.services.store
        match action:
            case CreatePod():
                pods.on_response(await self._client.create_pod(namespace, action))
            case CreateService(body=body):
                services.on_response(await self._client.create_service(namespace, body))
            case CreateSshSecret(body=body):
                await self._client.create_secret(namespace, {**body, "data": key_pair()})
            case CreateDependent() | UpdateDependent() | DeleteDependent():
                await self._do_to_dependent(namespace, action)
            case DeletePod(name=name, uid=uid, grace=grace, version=version):
                self._cache.pods.on_delete_response(
                    uid, await self._client.delete_pod(namespace, name, uid, grace, version)
                )
            case ReleasePod(name=name, uid=uid):
                left = await self._client.release_pod(namespace, name, patches.finalizer_patch(action))
                self._cache.pods.on_delete_response(uid, left)
                require_released(name, left)
            case DeleteService(name=name, uid=uid):
                self._cache.services.on_delete_response(uid, await self._client.delete_service(namespace, name, uid))
            case DeleteJob(uid=uid, version=version):
                await self._client.delete_job(snapshot.framework, namespace, snapshot.job.name, uid, version)
                self._cache.jobs[snapshot.job.kind].forgotten(uid)

    async def _do_to_dependent(
        self, namespace: str, action: CreateDependent | UpdateDependent | DeleteDependent
    ) -> None:
        resource, store = action.resource, self._cache.dependents[action.resource].store
        match action:
            case CreateDependent(body=body, shared=shared):
                try:
                    await self._create_dependent(resource, namespace, body)
                except NameConflict:
                    if not shared:
                        raise
            case UpdateDependent(name=name, patch=patch):
                try:
                    await self._update_dependent(resource, namespace, name, patch)
                except NotFound:
                    store.forgotten(patch["metadata"]["uid"])
            case DeleteDependent(name=name, uid=uid):
                self._cache.dependents[resource].on_delete_response(
                    uid, await self._client.delete_dependent(resource, namespace, name, uid)
                )

    async def _create_dependent(self, resource: Resource, namespace: str, body: Document) -> None:
        """Create a dependent, and add the labels to one that v1 created: no watch selects it without the job label."""
        found = await self._client.create_dependent(resource, namespace, body)
        if found.job:
            self._cache.on_write(found)
            return
        patch = {"metadata": {"uid": found.uid, "labels": body["metadata"]["labels"]}}
        await self._update_dependent(resource, namespace, found.name, patch)

    async def _update_dependent(self, resource: Resource, namespace: str, name: str, patch: Document) -> None:
        """Merge `patch` into a dependent; raises `Reverted` if a webhook has changed what was written."""
        found = await self._client.update_dependent(resource, namespace, name, patch)
        self._cache.on_write(found)
        if not dependents.is_applied(patch, found):
            raise Reverted(altered(resource.kind, name))


async def _delete_job(tasks: Mapping[Group, list[Task]]) -> list[ApiError]:
    """Delete the job, if it is to be deleted; return the error. Raises `NotFound` if another has deleted it."""
    errors = await run_with_slow_start(tasks.get(Group.JOB, ()))
    for error in errors:
        if isinstance(error, NotFound):
            raise error
    return errors


def _running(snapshot: Snapshot) -> int:
    """Return the number of pods that the job has and that have not ended."""
    return sum(pod.phase in (Phase.PENDING, Phase.RUNNING) for pod in snapshot.pods)


def _failure_events(snapshot: Snapshot, action: Action, error: ApiError) -> Iterator[Event]:
    """Yield the Event for a failed action; none after a conflict, when the job is reconciled again."""
    events = action_events(snapshot, action)
    if isinstance(error, PreviousJobTerminating) and events:
        yield waiting_for_previous_job(error.reason, error)
    elif events and not isinstance(error, Conflict):
        yield events.failure(error)
    elif isinstance(error, Reverted):
        yield Event(EventType.WARNING, error.reason, str(error), key=f"{error.reason}/{error}")


def _words(action: Action) -> tuple[str, str]:
    traits = TRAITS[type(action)]
    if not traits.noun and isinstance(action, (CreateDependent, UpdateDependent, DeleteDependent)):
        return traits.verb, action.resource.kind
    return traits.verb, traits.noun


def _summary(wanted: Mapping[tuple[str, str], int], done: Mapping[tuple[str, str], int]) -> str:
    """Return what was done, and last, before the error, what was not done completely."""
    counts = sorted(((words, done[words], number) for words, number in wanted.items()), key=lambda row: row[1] < row[2])
    return ", ".join(
        f"{verb} {count if count == number else f'{count} of {number}'} {noun}{'' if number == 1 else 's'}"
        for (verb, noun), count, number in counts
    )


def _error_order(error: ApiError) -> tuple[bool, str, str]:
    """Sort key: definite errors first, then by text, so that the status names the same error in any order."""
    return not isinstance(error, DEFINITE), error.reason, str(error)


def key_pair() -> dict[str, str]:
    """Return the data of a Secret of type `kubernetes.io/ssh-auth`: an ECDSA key on P-521 and its public key.

    Takes about a millisecond.
    """
    # Imported here, because it takes 14 MB of memory, which only operators with such jobs should need.
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.TraditionalOpenSSL, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return {"ssh-privatekey": _encoded(private), "ssh-publickey": _encoded(public + b"\n")}


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()

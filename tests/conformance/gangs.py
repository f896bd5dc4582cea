"""Operators with a gang scheduler, each in a namespace of its own; the tests simulate the scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import FakeKubelet, Operator, UserClient
from support.groups import Groups, defined_groups
from support.jobs import job, pod_spec
from support.user_client import eventually
from testbed.control_plane import ControlPlane

PT = "PyTorchJob"

#: The value of the flag, and the API of its groups.
APIS = {"volcano": "scheduling.volcano.sh/v1beta1", "scheduler-plugins": "scheduling.x-k8s.io/v1alpha1"}
BOTH = tuple(APIS)


@dataclass(frozen=True, slots=True)
class Gang:
    """One scheduler: its groups, its pods' kubelet, and a user's user."""

    scheduler: str
    user: UserClient
    groups: Groups
    kubelet: FakeKubelet

    def let_in(self, name: str) -> None:
        """The scheduler has room for a job."""
        self.groups.set_phase(name, "Inqueue" if self.scheduler == "volcano" else "Scheduled")


@contextmanager
def gang(plane: ControlPlane, folder: Path, scheduler: str) -> Iterator[Gang]:
    """An operator with the flag; at the end its log holds no traceback."""
    user = UserClient.somewhere(plane.kubeconfig, named=scheduler)
    groups = Groups(user, APIS[scheduler])
    flags = ("--no-leader-elect", f"--namespace={user.namespace}", f"--gang-scheduler-name={scheduler}")
    operator = Operator(plane.kubeconfig, folder, *flags).start()
    with FakeKubelet(user, groups.place) as kubelet:
        yield Gang(scheduler, user, groups, kubelet)
    assert operator.alive, operator.log.read_text()[-3000:]
    assert operator.stop() == 0
    assert operator.complaints() == []


def a_gang(name: str, kind: str = "PyTorchJob", *, policy: dict | None = None, **roles: int) -> dict:
    """A job, by default of a master and two workers, with this scheduling policy."""
    roles = roles or {"Master": 1, "Worker": 2}
    return job(kind, name, policy={"schedulingPolicy": policy} if policy else None, **roles)


def needing(wanted: dict, role: str, **resources: dict) -> dict:
    """The same job, its container of a role with these requests and limits."""
    pod_spec(wanted, role)["containers"][0]["resources"] = resources
    return wanted


def running(found: Gang, name: str) -> None:
    """Let a job of that name run."""
    found.user.create(a_gang(name))
    found.let_in(name)
    eventually(lambda: found.user.state(PT, name) == "Running")


@pytest.fixture(scope="package")
def schedulers(second_server: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Gang]]:
    """Both schedulers, on an API server that knows their groups."""
    with defined_groups(second_server), ExitStack() as stack:
        yield {name: stack.enter_context(gang(second_server, tmp_path_factory.mktemp(name), name)) for name in BOTH}


@pytest.fixture
def gangs(schedulers: dict[str, Gang]) -> Iterator[dict[str, Gang]]:
    """Both schedulers; after each test none of its jobs and groups is left."""
    yield schedulers
    for found in schedulers.values():
        found.user.delete_jobs()
        found.user.call("DELETE", found.groups.path)


@pytest.fixture
def volcano(gangs: dict[str, Gang]) -> Gang:
    """Volcano."""
    return gangs["volcano"]


@pytest.fixture
def plugins(gangs: dict[str, Gang]) -> Gang:
    """The coscheduling plugin of scheduler-plugins."""
    return gangs["scheduler-plugins"]

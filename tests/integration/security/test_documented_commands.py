"""The commands in the docs for users need only the role `edit`, and those that read only `view`."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from docs.commands import ROOT, blocks
from support import Refused, UserClient
from support.jobs import pytorchjob, template
from support.kubectl import kubectl
from support.user_client import eventually
from testbed.control_plane import ControlPlane

from .people import person
from .used_rights import UsedRights, used_rights

ROLES = ROOT / "manifests" / "base" / "aggregated-roles.yaml"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
#: Marks a command of an administrator.
ADMINISTRATORS = (
    "trainshed-system",
    "--namespace kubeflow",
    "crds/",
    "manifests/",
    "get nodes",
    "--as ",
    "install.yaml",
)
#: The namespace of the pages, in place of which the test has one of its own.
NAMESPACE = " --namespace team-a"
LOOKING = frozenset(("get", "describe", "logs", "wait", "explain"))
#: Commands that need no right on any object.
DISCOVERY = "kubectl explain "
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
#: The jobs in the commands.
JOBS = ("mnist", "bert", "misspelt", "torchrun-elastic", "distributed-pytorch-job", "resumable")


def commands(page: Path) -> Iterator[str]:
    """The kubectl commands of a page that are for users, as far as the first pipe."""
    for block in blocks(page.read_text()):
        for step in block.steps:
            command = step.command.partition(" | ")[0]
            if command.startswith("kubectl ") and not any(mark in command for mark in ADMINISTRATORS):
                yield command


COMMANDS = tuple(dict.fromkeys(command for page in PAGES for command in commands(page)))


@pytest.fixture(scope="module", autouse=True)
def roles(server: ControlPlane) -> Iterator[None]:
    """The roles of manifests/ are there and have gone into Kubernetes' own; afterwards they are not."""
    admin = UserClient(server.kubeconfig, "default")
    assert kubectl(server, admin, "apply", "-f", str(ROLES)).returncode == 0
    eventually(lambda: "pytorchjobs/scale" in str(admin.call("GET", f"{CLUSTER_ROLES}/edit")["rules"]), 30)
    yield
    kubectl(server, admin, "delete", "-f", str(ROLES))


def may_read(user: UserClient) -> bool:
    """Return whether the user's rights are in force."""
    try:
        user.jobs("PyTorchJob")
    except Refused:
        return False
    return True


def typed(server: ControlPlane, role: str, command: str) -> tuple[UsedRights, str]:
    """Run a command as a user with a role in the namespace of the pages' jobs; return the requests and the output."""
    admin = UserClient.somewhere(server.kubeconfig)
    if " create " not in command:
        for name in JOBS:
            admin.create(pytorchjob(name, Master=1, Worker=1))
            admin.make("configmaps", {"metadata": {"name": name}})
            labels = {"training.kubeflow.org/job-name": name}
            for replica in ("master-0", "worker-1"):
                metadata = {"name": f"{name}-{replica}", "labels": labels}
                admin.make("pods", {"metadata": metadata, **template("pytorch")})
    name = f"{role}-{uuid.uuid4().hex[:8]}"
    user = person(server, admin.namespace, name, role=role)
    eventually(lambda: may_read(user), 30)
    limits = ("--request-timeout=20s", *(("--timeout=1s",) if " wait " in command else ()))
    since = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    words = [word for word in shlex.split(command.replace(NAMESPACE, ""))[1:] if not word.startswith("--timeout")]
    done = kubectl(server, admin, f"--kubeconfig={server.kubeconfig_for(name)}", *words, *limits)
    return used_rights(server.audit_log, name, since), done.stderr


def test_the_pages_have_commands_for_users():
    verbs = {command.split()[1] for command in COMMANDS}
    assert {"create", "delete", "get", "describe", "logs", "scale", "wait"} <= verbs
    assert len(COMMANDS) >= 18


@pytest.mark.parametrize("command", COMMANDS)
def test_a_user_with_the_role_edit_may_do_what_the_pages_say(server: ControlPlane, command: str):
    found, words = typed(server, "edit", command)
    assert sorted(map(str, found.refused)) == []
    assert bool(found.used) is not command.startswith(DISCOVERY), words
    assert "NotFound" not in words


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.split()[1] in LOOKING])
def test_a_user_with_the_role_view_may_read_what_the_pages_say(server: ControlPlane, command: str):
    found, words = typed(server, "view", command)
    assert sorted(map(str, found.refused)) == []
    assert bool(found.used) is not command.startswith(DISCOVERY), words


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.split()[1] not in LOOKING])
def test_a_user_with_the_role_view_may_change_nothing(server: ControlPlane, command: str):
    found, words = typed(server, "view", command)
    assert {right.verb for right in found.refused} <= {"create", "delete", "patch"}
    assert found.refused, words
    assert "forbidden" in words


def test_kubectl_scale_needs_the_subresource(server: ControlPlane):
    found, words = typed(server, "edit", "kubectl scale pytorchjob mnist --replicas=2")
    assert not words
    assert "kubeflow.org pytorchjobs/scale patch" in {
        f"{right.group} {right.resource} {right.verb}" for right in found.used
    }

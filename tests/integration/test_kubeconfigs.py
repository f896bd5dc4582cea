"""A laptop's kubeconfigs work in every command: plugins, proxies, impersonation, other server names, two files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from support import Operators
from support.audit_log import entries
from support.background import in_background
from support.fake_kubelet import FakeKubelet
from support.jobs import tfjob
from support.tcp_proxy import ServiceProxy
from support.user_client import UserClient, eventually
from testbed.control_plane import ControlPlane

PLUGIN = """
import json, pathlib, time
folder = pathlib.Path({folder!r})
asked = folder / "asked"
asked.write_text(asked.read_text() + "x" if asked.exists() else "x")
until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + {seconds}))
answer = {{"token": (folder / "token").read_text(), "expirationTimestamp": until}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": answer}}))
"""


@pytest.fixture
def admin(second_server: ControlPlane) -> dict:
    """The administrator's kubeconfig, in which a test changes a cluster or a user."""
    return yaml.safe_load(second_server.kubeconfig.read_text())


def cluster(config: dict) -> dict:
    return config["clusters"][0]["cluster"]


def written(folder: Path, config: dict, name: str = "config") -> Path:
    (folder / name).write_text(yaml.safe_dump(config))
    return folder / name


def run(config: str, *words: str) -> str:
    """Run a command with KUBECONFIG, and return what it prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "trainshed", *words],
        env=os.environ | {"KUBECONFIG": config},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def every_command_works(user: UserClient, operators: Operators, config: Path) -> None:
    """The operator runs a job, and the commands that read the cluster do."""
    with FakeKubelet(user):
        operator = operators.begin(config, "--no-leader-elect", f"--namespace={user.namespace}")
        user.create(tfjob("mnist", Worker=2))
        eventually(lambda: user.state("TFJob", "mnist") == "Running", 30)
        assert operator.stop() == 0
        assert operator.complaints() == []
    assert "mnist" in run(str(config), "migrate", "--dry-run", f"--namespace={user.namespace}")
    run(str(config), "remove-finalizers", "--include-active-jobs", f"--namespace={user.namespace}")


def account_token(user: UserClient, secret: str) -> str:
    """Return a token of a service account that is valid while a Secret exists."""
    made = user.make("secrets", {"metadata": {"name": secret}})
    bound = {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": made["metadata"]["uid"]}
    path = f"/api/v1/namespaces/{user.namespace}/serviceaccounts/laptop/token"
    return user.call("POST", path, {"spec": {"boundObjectRef": bound}})["status"]["token"]


# The API server keeps what it knows of a token for ten seconds.
@pytest.mark.parametrize("times", [(2, 2.5), (3600, 11)], ids=["expires", "is revoked"])
def test_a_credential_plugin_is_asked_again_when_its_token(
    second_user: UserClient, admin: dict, tmp_path: Path, operators: Operators, times: tuple[int, float]
):
    user, (seconds, later) = second_user, times
    user.make("serviceaccounts", {"metadata": {"name": "laptop"}})
    subject = {"kind": "ServiceAccount", "name": "laptop", "namespace": user.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": user.namespace}, "roleRef": role, "subjects": [subject]}
    user.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    (tmp_path / "token").write_text(account_token(user, "first"))
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": sys.executable}
    spec["args"] = ["-c", PLUGIN.format(folder=str(tmp_path), seconds=seconds)]
    admin["users"][0]["user"] = {"exec": spec}
    config = written(tmp_path, admin)
    with FakeKubelet(user):
        operator = operators.begin(config, "--no-leader-elect", f"--namespace={user.namespace}")
        user.create(tfjob("a", Worker=1))
        eventually(lambda: user.state("TFJob", "a") == "Running", 30)
        asked = len((tmp_path / "asked").read_text())
        (tmp_path / "token").write_text(account_token(user, "second"))
        user.delete("secrets", "first")
        time.sleep(later)
        user.create(tfjob("b", Worker=1))
        eventually(lambda: user.state("TFJob", "b") == "Running", 30)
        assert len((tmp_path / "asked").read_text()) > asked
        assert operator.stop() == 0
        assert operator.complaints() == []
    assert "TFJob" in run(str(config), "migrate", "--dry-run", f"--namespace={user.namespace}")
    run(str(config), "remove-finalizers", "--include-active-jobs", f"--namespace={user.namespace}")


def test_a_proxy_is_on_the_way(
    second_server: ControlPlane, second_user: UserClient, admin: dict, tmp_path: Path, operators: Operators
):
    with in_background(ServiceProxy(tmp_path / "proxy")) as proxy:
        server = cluster(admin)["server"].removeprefix("https://")
        proxy.backends["k8s.example.com:6443"] = int(server.rpartition(":")[2])
        # Only the proxy knows this name, and only the certificate the other one.
        cluster(admin).update({"server": "https://k8s.example.com:6443", "tls-server-name": "localhost"})
        cluster(admin)["proxy-url"] = proxy.url
        every_command_works(second_user, operators, written(tmp_path, admin))


def test_a_command_acts_as_somebody_else(
    second_server: ControlPlane, second_user: UserClient, admin: dict, tmp_path: Path, operators: Operators
):
    groups = ["system:masters", "people"]
    admin["users"][0]["user"] |= {"as": "jane", "as-groups": groups, "as-user-extra": {"Example.com/why": ["test"]}}
    every_command_works(second_user, operators, written(tmp_path, admin))
    asked = [entry for entry in entries(second_server.audit_log) if second_user.namespace in entry["requestURI"]]
    acted = [entry["impersonatedUser"] for entry in asked if "impersonatedUser" in entry]
    assert {user["username"] for user in acted} == {"jane"}
    assert all(set(groups) <= set(user["groups"]) and user["extra"] == {"example.com/why": ["test"]} for user in acted)


@pytest.mark.parametrize(("name", "works"), [("kubernetes.default.svc", True), ("other.example.com", False)])
def test_the_servers_certificate_has_the_name_that_the_kubeconfig_says(
    second_user: UserClient, admin: dict, tmp_path: Path, name: str, works: bool
):
    cluster(admin)["tls-server-name"] = name
    config = str(written(tmp_path, admin))
    words = ("migrate", "--dry-run", f"--namespace={second_user.namespace}")
    if works:
        run(config, *words)
    else:
        with pytest.raises(AssertionError, match="Hostname mismatch"):
            run(config, *words)


def test_two_files_of_kubeconfig_are_merged(second_user: UserClient, admin: dict, tmp_path: Path):
    users = written(tmp_path, {"users": admin.pop("users")}, "users")
    rest = written(tmp_path, admin, "rest")
    run(f"{rest}:{tmp_path}/missing:{users}", "migrate", "--dry-run", f"--namespace={second_user.namespace}")

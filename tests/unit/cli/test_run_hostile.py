"""A hostile manifest neither writes nor mounts outside of its volumes, with every runtime."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.local_runs import Machine, a_job, permitted
from trainshed.cli import cli

from . import fake_docker

MAIN = ("containers", 0)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch) -> Machine:
    """A machine with a home, and with a program that stands for docker."""
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    for name in (".bashrc", ".ssh/authorized_keys"):
        (tmp_path / "home" / name).write_text("precious")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "docker").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -S "{fake_docker.__file__}" "$@"\n')
    (programs / "docker").chmod(0o755)
    (tmp_path / "engine" / "images").mkdir(parents=True)
    (tmp_path / "engine" / "images" / "x").touch()
    monkeypatch.setenv("FAKE_DOCKER", str(tmp_path / "engine"))
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return Machine(tmp_path)


def a_hostile_job(volume: dict, home: Path, *, script: str = "echo started", **mount) -> dict:
    """A job with a volume, in which {home} stands for the home."""
    named = {"name": "v", **volume}
    job = a_job(script, volumes=[named])
    for group in job["spec"]["pytorchReplicaSpecs"].values():
        container = group["template"]["spec"]["containers"][0]
        container["volumeMounts"] = [{"name": named["name"], "mountPath": "/tmp", **mount}]
    return filled(job, str(home))


def filled(value, home: str):
    if isinstance(value, dict):
        return {key.replace("{home}", home): filled(item, home) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, home) for item in value]
    return value.replace("{home}", home) if isinstance(value, str) else value


def files(*paths: str) -> dict:
    return {"configMap": {"name": "c", "items": [{"key": "k", "path": path} for path in paths]}}


#: A volume, more of its mount, more of the ConfigMap c, and what the refusal names.
HOSTILE: list[tuple[dict, dict, dict, str]] = [
    (files("{home}/.ssh/authorized_keys"), {}, {}, "items[0].path: Invalid value"),
    (files("../../../../home/.bashrc"), {}, {}, "items[0].path: Invalid value"),
    (files("a/../../../../../home/.bashrc"), {}, {}, "items[0].path: Invalid value"),
    (files("..data"), {}, {}, "must not start with '..'"),
    (files(""), {}, {}, "items[0].path: Required value"),
    (files("x\n/../../../home"), {}, {}, "items[0].path: Invalid value"),
    (files("a\0b"), {}, {}, "must not contain a zero byte"),
    (files("\u2025/../../.."), {}, {}, "must not contain '..'"),
    ({"configMap": {"name": "c"}}, {}, {"data": {"../../../../home/.bashrc": "x"}}, "data[../../../../home/.bashrc]"),
    ({"configMap": {"name": "c"}}, {}, {"binaryData": {"/../home/.bashrc": "eA=="}}, "binaryData[/../home/.bashrc]"),
    ({"configMap": {"name": "c"}}, {}, {"metadata": {"name": "../c"}}, "metadata.name: Invalid value"),
    ({"configMap": {"name": "c"}}, {}, {"metadata": {"name": "c", "namespace": "../../home"}}, "metadata.namespace"),
    ({"persistentVolumeClaim": {"claimName": "../../../home"}}, {}, {}, "claimName: Invalid value"),
    ({"persistentVolumeClaim": {"claimName": "{home}"}}, {}, {}, "claimName: Invalid value"),
    ({"name": "../../../../home", "emptyDir": {}}, {}, {}, "spec.volumes[0].name: Invalid value"),
    ({"emptyDir": {}}, {"subPath": "../../../../home"}, {}, "subPath: Invalid value"),
    ({"emptyDir": {}}, {"subPathExpr": "{home}"}, {}, "subPathExpr: Invalid value"),
    ({"secret": {"secretName": "c", "items": [{"key": "k", "path": "../x"}]}}, {}, {}, "secret.items[0].path"),
    (
        {"downwardAPI": {"items": [{"path": "{home}/.bashrc", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {},
        {},
        "path",
    ),
    ({"projected": {"sources": [{"configMap": files("../x")["configMap"]}]}}, {}, {}, "sources[0].configMap.items[0]"),
    ({"hostPath": {"path": "{home}/../x", "type": "DirectoryOrCreate"}}, {}, {}, "hostPath.path: Invalid value"),
]


def invoke(machine: Machine, *documents: dict):
    """Run jobs within this process, which is quick as long as they are refused."""
    return CliRunner().invoke(cli, machine.command(*documents, runtime="docker")[3:], catch_exceptions=False)


def snapshot(home: Path) -> dict[str, object]:
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in (home, *home.rglob("*"))
    }


@pytest.mark.parametrize(("volume", "mount", "parts", "problem"), HOSTILE)
def test_a_path_out_of_a_volume_is_refused_before_anything_is_written(machine, volume, mount, parts, problem):
    home = machine.folder / "home"
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "hostile"}} | parts
    before = snapshot(home)
    done = invoke(machine, settings, a_hostile_job(volume, home, **mount))
    assert done.exit_code == 1, done.output
    assert done.stderr.startswith("Error: ")
    assert problem in done.stderr
    assert snapshot(home) == before
    assert not machine.state.exists()
    assert not (machine.folder / "engine" / "calls").exists()


def multiplied(part: str, container: dict) -> dict:
    """A job with a container among others of some kind, whose variable A its arguments have 2,000 times."""
    long = {
        "name": "long",
        "image": "x",
        "command": ["sh"],
        "env": [{"name": "A", "value": "x" * 120_000}],
        **container,
    }
    rest = [{"name": "pytorch", "image": "x", "command": ["true"]}]
    return a_job("true", **({part: [*rest, long]} if part == "containers" else {part: [long]}))


#: A job whose host names are too long from the replica 1000 on.
SUBDOMAIN = "s" * (64 - len("job-worker-999..default.svc.cluster.local"))
LONG_NAME = f"{SUBDOMAIN}.default.svc.cluster.local"
LONG = a_job("true", workers=1_001, subdomain=SUBDOMAIN, setHostnameAsFQDN=True)


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        (a_job("true", workers=50_000), "there are 50001 replicas; a run on one machine has at most 2000"),
        (
            a_hostile_job({"hostPath": {"path": "/nowhere/x"}}, Path("/")),
            "spec.volumes[0].hostPath: Invalid value: /nowhere/x does not exist on this machine",
        ),
        (
            multiplied("containers", {"args": ["$(A)y"] * 2_000}),
            "spec.containers[1]: Too long: all arguments and variables together have more than 6291456 bytes",
        ),
        (
            multiplied("initContainers", {"env": [{"name": "A", "value": "x" * 70_000}], "args": ["$(A)$(A)"]}),
            "initContainers[0]: Too long: an argument or a variable has more than 131072 bytes after $(A) is replaced",
        ),
        (LONG, f"Invalid value: job-worker-1000.{LONG_NAME} has 65 characters, and a host name at most 64"),
        (a_job("true", workers=2_000), "there are 2001 replicas; a run on one machine has at most 2000"),
        (
            a_hostile_job({"emptyDir": {}}, Path("/"), mountPath="/."),
            'spec.containers[0].volumeMounts[0].mountPath: Invalid value: "/.": nothing can be mounted at the root',
        ),
        (
            a_job("true", containers=[{"name": "pytorch", "image": "x", "terminationMessagePath": "//"}]),
            'spec.containers[0].terminationMessagePath: Invalid value: "//": nothing can be mounted at the root',
        ),
        (
            a_hostile_job({"emptyDir": {}}, Path("/"), mountPath="/a/../proc/"),
            'volumeMounts[0].mountPath: Invalid value: "/a/../proc/": nothing can be mounted at the processes of a',
        ),
    ],
)
def test_what_no_machine_can_do_is_refused_before_anything_starts(machine, job, problem):
    done = invoke(machine, job)
    assert done.exit_code == 1
    assert problem in done.stderr
    assert not (machine.folder / "engine" / "calls").exists()


@pytest.mark.parametrize("where", ["name", "namespace"])
def test_a_job_is_no_path(machine, where):
    job = a_job("echo started")
    job["metadata"][where] = "../../home"
    done = invoke(machine, job)
    assert done.exit_code == 1
    assert f"metadata.{where}: Invalid value" in done.stderr
    assert not machine.state.exists()


def test_a_null_is_no_namespace(machine):
    job = a_job("echo started")
    job["metadata"]["namespace"] = None
    done = machine.run({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": None}}, job)
    assert done.returncode == 0, done.stderr
    assert "Name:      default/job" in done.stdout


def test_an_image_is_no_option_of_docker(machine):
    job = a_job("echo started")
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["image"] = "--volume=/:/host"
    done = invoke(machine, job)
    assert 'image: Invalid value: "--volume=/:/host": must be the name of an image' in done.stderr
    assert not (machine.folder / "engine" / "calls").exists()


@pytest.mark.parametrize("runtime", ["processes", "namespaces", "docker"])
def test_a_link_that_an_earlier_run_has_left_in_a_claim_is_not_mounted(machine, runtime):
    permitted(runtime)
    home = machine.folder / "home"
    claim = {"persistentVolumeClaim": {"claimName": "data"}}
    assert machine.run(a_hostile_job(claim, home, script="true")).returncode == 0
    (machine.runs / "claims/default/data/out").symlink_to(home)
    before = snapshot(home)
    done = machine.run(a_hostile_job(claim, home, script="rm -rf /tmp/*", subPath="out"), runtime=runtime)
    assert done.returncode == 1
    assert 'volumeMounts[0].subPath: Invalid value: "out": leads out of its volume' in done.stderr
    assert snapshot(home) == before


@pytest.mark.parametrize("target", ["/data/settings", "/data/out/settings", "/data/back/settings"])
def test_a_mount_below_a_claim_hides_none_of_what_is_written_to_the_claim(machine, target):
    permitted("namespaces")
    home, claim = machine.folder / "home", machine.runs / "claims/default/data"
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "found"}}
    job = a_hostile_job({"persistentVolumeClaim": {"claimName": "data"}}, home, script="true", mountPath="/data")
    assert machine.run(job, runtime="namespaces").returncode == 0
    (claim / "out").symlink_to("/other")
    (claim / "back").symlink_to("../../../../../other")
    job = a_hostile_job({"persistentVolumeClaim": {"claimName": "data"}}, home, script="", mountPath="/data")
    del job["spec"]["pytorchReplicaSpecs"]["Worker"]
    spec = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    spec["volumes"].append({"name": "c", "configMap": {"name": "c"}})
    spec["containers"][0]["volumeMounts"].insert(0, {"name": "c", "mountPath": target})
    spec["containers"][0]["command"] = ["sh", "-c", f"cat {target}/k && echo result > /data/result"]
    done = machine.run(settings, job, runtime="namespaces")
    assert (done.returncode, "master-0 | found" in done.stdout) == (0, True), done.stdout + done.stderr
    assert (claim / "result").read_text() == "result\n"
    assert not (machine.folder / "other").exists()

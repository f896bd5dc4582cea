"""The paths of this machine that replicas get work in scripts that do not quote them, whatever is in them."""

from __future__ import annotations

import sys

import pytest

from support.local_runs import SOON, Machine, a_job, permitted, until


@pytest.fixture(params=["processes", "namespaces"])
def runtime(request) -> str:
    permitted(request.param)
    return request.param


@pytest.mark.parametrize("name", ["my runs", "a;b $c 'd' \"e\" *", "-f", "ü\u2028"])
def test_unquoted_paths_of_volumes_work_whatever_the_folder_of_the_run(tmp_path, monkeypatch, runtime, name):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    machine = Machine(tmp_path / name)
    (machine.folder / "host").mkdir(parents=True)
    script = "mkdir /data/old /host/old; echo new > $DATA/new; rm -rf /data/old /host/old; cat /data/new; ls -a /host"
    job = a_job(
        script,
        volumes=[{"name": "v", "emptyDir": {}}, {"name": "h", "hostPath": {"path": str(machine.folder / "host")}}],
    )
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "v", "mountPath": "/data"}, {"name": "h", "mountPath": "/host"}]
    container["env"] = [{"name": "DATA", "value": "/data"}]
    del job["spec"]["pytorchReplicaSpecs"]["Worker"]
    done = machine.run(job, runtime=runtime)
    assert done.returncode == 0, done.stdout + done.stderr
    assert next(machine.runs.glob("2*/logs/job-master-0.log")).read_text().split() == ["new", ".", ".."]
    assert [*(tmp_path / "tmp").iterdir()] == []


def test_the_links_of_a_killed_run_are_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    machine = Machine(tmp_path / "my runs")
    machine.folder.mkdir()
    job = a_job("echo begun; sleep $TIME", volumes=[{"name": "v", "emptyDir": {}}])
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container |= {"volumeMounts": [{"name": "v", "mountPath": "/data"}], "args": ["/data"]}
    container["env"] = [{"name": "TIME", "value": "99"}]
    run = machine.start(job)
    until(run, "begun", 2)
    (left,) = (tmp_path / "tmp").iterdir()
    (left / "precious").write_text("not a link")
    run.kill()
    run.communicate(timeout=SOON)
    container["env"] = [{"name": "TIME", "value": "0"}]
    assert machine.run(job).returncode == 0
    assert [path.name for path in (tmp_path / "tmp").rglob("*")] == [left.name, "precious"]


@pytest.mark.parametrize("flag", ["--state", "--python"])
def test_a_folder_that_cannot_be_in_the_path_is_refused(tmp_path, runtime, flag):
    folder = tmp_path / "a:b"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    done = Machine(tmp_path).run(a_job("true"), runtime=runtime, arguments=(flag, str(folder)))
    assert done.returncode == 1
    assert f"has a colon, so it cannot be in PATH; choose another folder with {flag}" in done.stderr


@pytest.mark.parametrize(
    ("path", "said"), [("/etc/passwd", "cannot mount at /etc/passwd: File exists"), ("/dev", "/dev/null: No such file")]
)
def test_where_a_volume_cannot_be_mounted_is_named(tmp_path, path, said):
    permitted("namespaces")
    job = a_job("true", restart="Never", volumes=[{"name": "v", "emptyDir": {}}])
    container = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "v", "mountPath": path}]
    done = Machine(tmp_path).run(job, runtime="namespaces")
    assert done.returncode == 1
    assert f"could not be started (StartError): {said}" in done.stdout

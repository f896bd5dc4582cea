"""The files of a release work where there is nothing else: a bare environment of Python, Helm and a real API server."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from charts.rendering import run as helm
from release.packages import plugin
from release.repository import Release
from support import FakeKubelet, UserClient
from support.jobs import KINDS, smallest
from support.kubectl import Kubectl, kubectl
from support.release import NAME, Helm
from support.user_client import eventually
from testbed.control_plane import ControlPlane
from testbed.places import ROOT, alone, state

from .rolled import PATIENCE, RolledReplicas

VERSION = "99.0.0"
#: Go's names of processors.
PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bare}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: {spec: {containers: [{name: pytorch, image: python:3, command: [python3, -c, "print('trained')"]}]}}
"""


def run(*words: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment | settings)


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a release of what is committed, without the image and the plugin, which take minutes."""
    root = tmp_path_factory.mktemp("release") / "root"
    if run("git", "-C", ROOT, "rev-parse").returncode:
        pytest.skip("not a git checkout: there is no commit to release")
    settings = {f"GIT_{who}_{what}": "x@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    assert run("git", "clone", "--quiet", "--no-tags", ROOT, root).returncode == 0
    log = (root / "CHANGELOG.md").read_text()
    entry = f"## [{VERSION}] - 2026-01-01\n\n### Added\n\n- All ([of it](README.md)).\n\n"
    (root / "CHANGELOG.md").write_text(log.replace("## [", f"{entry}## [", 1))
    assert run("git", "-C", root, "commit", "-qam", "Date it", **settings).returncode == 0
    with alone(state() / "release.lock"):  # tests beside this one may want the same environment
        done = run("make", "-C", ROOT, ".venv-release/.ready", ".venv-sbom/.ready", "sbom")
    assert done.returncode == 0, done.stderr
    words = ("-m", "release", VERSION, "--root", root, "--out", root / "dist", "--without-image", "--without-plugin")
    done = run(sys.executable, *words, **settings, PYTHONPATH=str(ROOT / "hack"))
    assert done.returncode == 0, done.stderr
    return root / "dist"


def test_the_files_have_the_version_and_their_checksums(dist):
    names = {path.name for path in dist.iterdir()}
    bills = {f"trainshed-{VERSION}-{what}.cdx.json" for what in ("image", "command")}
    packages = {f"trainshed-{VERSION}-py3-none-any.whl", f"trainshed-{VERSION}.tar.gz", f"trainshed-{VERSION}.tgz"}
    assert names == {"NOTES.md", "SHA256SUMS", "crds.yaml", "install.yaml", "k9s-plugins.yaml"} | bills | packages
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=dist, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count(": OK")) == (0, len(names) - 1), done.stderr
    plugins = yaml.safe_load((dist / "k9s-plugins.yaml").read_text())["plugins"]
    assert all({"shortCut", "command", "scopes", "description"} <= plugin.keys() for plugin in plugins.values())


def test_a_bare_environment_runs_a_job_and_names_the_extra_of_the_operator(dist, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    assert run(sys.executable, "-m", "venv", tmp_path / "venv").returncode == 0
    (wheel,) = dist.glob("*.whl")
    done = run(python, "-m", "pip", "install", "--quiet", wheel, HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    program, home = python.with_name("trainshed"), {"HOME": str(tmp_path)}
    assert run(program, "--version", **home).stdout == f"trainshed, version {VERSION}\n"
    (tmp_path / "job.yaml").write_text(JOB)
    done = run(program, "run", "--runtime", "processes", "-f", tmp_path / "job.yaml", **home)
    assert (done.returncode, "trained" in done.stdout) == (0, True), done.stderr
    assert "kind: Pod" in run(program, "render", "-f", tmp_path / "job.yaml", **home).stdout
    assert run(program, "get", **home).stderr.startswith("Error: no credentials found")
    done = run(program, "operator", **home)
    assert (done.returncode, "pip install 'trainshed[operator]'" in done.stderr) == (1, True), done.stderr
    done = run(python, "-m", "pip", "install", "--quiet", f"{wheel}[operator]", HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "no credentials found" in run(program, "operator", **home).stderr


def test_the_plugin_of_kubectl_brings_all_that_it_needs(dist, tmp_path):
    (wheel,) = dist.glob("*.whl")
    release = Release(VERSION, ROOT, tmp_path / "work", tmp_path, 1_000_000_000)
    archive = plugin(f"{sys.platform}_{PROCESSORS[platform.machine()]}", wheel, release)
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "plugin", filter="data")
    program = tmp_path / "plugin" / "kubectl-trainshed"
    bare = {"HOME": str(tmp_path), "PYTHONNOUSERSITE": "1"}
    assert run(program, "--version", **bare).stdout == f"kubectl trainshed, version {VERSION}\n"
    (tmp_path / "job.yaml").write_text(JOB)
    assert "kind: Pod" in run(program, "render", "-f", tmp_path / "job.yaml", **bare).stdout


def test_the_chart_renders_what_install_yaml_has(dist):
    (chart,) = dist.glob("*.tgz")
    rendered = helm(4, "template", "trainshed", str(chart), "--namespace", "trainshed-system")
    documents = [item for item in yaml.load_all(rendered, Loader=yaml.CSafeLoader) if item]
    installed = list(yaml.load_all((dist / "install.yaml").read_text(), Loader=yaml.CSafeLoader))
    key = lambda item: (item["kind"], item["metadata"]["name"])  # noqa: E731
    hooks = {key(item) for item in documents if "helm.sh/hook" in item["metadata"].get("annotations", {})}
    assert {key(item) for item in installed} == {key(item) for item in documents} - hooks | {
        ("Namespace", "trainshed-system")
    }
    (operator,) = (item for item in installed if item["kind"] == "Deployment")
    (container,) = operator["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"ghcr.io/trainshed/trainshed:{VERSION}"
    with tarfile.open(chart) as tar:
        about = yaml.safe_load(tar.extractfile("trainshed/Chart.yaml"))
    assert (about["version"], about["appVersion"], bool(about["icon"]), about["kubeVersion"]) == (
        VERSION,
        VERSION,
        True,
        ">=1.30.0-0",
    )
    assert yaml.safe_load(about["annotations"]["artifacthub.io/changes"]) == [
        {"kind": "added", "description": "All (of it)."}
    ]


@pytest.mark.parametrize("how", [[], ["--server-side", "--force-conflicts"]], ids=["client", "server"])
def test_a_real_api_server_takes_install_yaml(dist, server: ControlPlane, user: UserClient, how):
    kubectl(server, user, "create", "namespace", "trainshed-system")  # a dry run creates none for the other objects
    words = ("--namespace=", "apply", *how, "--dry-run=server", "-f", str(dist / "install.yaml"))
    done = kubectl(server, user, *words)
    assert done.returncode == 0, done.stderr
    count = sum(1 for _ in yaml.load_all((dist / "install.yaml").read_text(), Loader=yaml.CSafeLoader))
    assert len(done.stdout.splitlines()) == count


def test_jobs_of_all_kinds_run_to_their_end_by_the_files_of_a_release(dist, tmp_path):
    (wheel,), (chart,) = dist.glob("*.whl"), dist.glob("*.tgz")
    assert run(sys.executable, "-m", "zipfile", "-e", wheel, tmp_path / "program").returncode == 0
    with ControlPlane(tmp_path / "plane", controllers=True) as plane:
        helm, user = Helm(3, str(plane.kubeconfig)), UserClient.somewhere(plane.kubeconfig)
        replicas = RolledReplicas(plane, tmp_path)
        try:
            helm("install", NAME, str(chart), "--create-namespace")
            all_succeed(user, replicas, tmp_path / "program")
            helm("uninstall", NAME)
            Kubectl(str(plane.kubeconfig))("apply", "--server-side", "-f", str(dist / "install.yaml"))
            all_succeed(user, replicas, tmp_path / "program")
        finally:
            replicas.kill()


def all_succeed(user: UserClient, replicas: RolledReplicas, program: Path) -> None:
    """Run the operator as its Deployment says, and the smallest job of each kind, whose pods succeed; delete them."""
    replicas.roll(program)
    with FakeKubelet(user, lambda name: "Running" if "mpijob-worker" in name else "0"):
        for kind in KINDS:
            user.create(smallest(kind, kind.lower()))
        states = lambda: {user.state(kind, kind.lower()) for kind in KINDS}  # noqa: E731
        eventually(lambda: states() == {"Succeeded"}, PATIENCE, every=0.5)
        user.delete_jobs()
        eventually(lambda: not user.pods(), PATIENCE, every=0.5)
    replicas.end()

"""A real API server accepts every manifest of the how-to pages, and their claims are tested where possible."""

from __future__ import annotations

import os
import subprocess
from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from docs import how_to
from support import FakeKubelet, UserClient
from support.kubectl import kubectl
from support.user_client import eventually
from testbed.control_plane import ControlPlane
from trainshed.cli import cli

PAGES = [page for page in how_to.PAGES if how_to.manifests(page)]
SDK = Path(__file__).parents[2] / ".venv-sdk" / "bin" / "python"


def apply(server: ControlPlane, user: UserClient, documents: list[dict], *words: str) -> list[str]:
    """Apply the objects; the lines that kubectl prints."""
    text = yaml.safe_dump_all(documents)
    done = kubectl(server, user, "apply", "--server-side", "--validate=strict", *words, "-f", "-", text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def rendered(job: dict) -> list[dict]:
    """The pods and Services of a job, as `trainshed render` prints them."""
    done = CliRunner().invoke(cli, ["render", "-f", "-"], input=yaml.safe_dump(job))
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.output))


@pytest.fixture
def team(server: ControlPlane, user: UserClient) -> str:
    """The namespace that the pages name."""
    kubectl(server, user, "create", "namespace", "team-a")
    return "team-a"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_api_server_accepts_every_manifest(server: ControlPlane, user: UserClient, team: str, page: Path):
    documents = how_to.manifests(page)
    assert len(apply(server, user, documents, f"--namespace={team}", "--dry-run=server", "--force-conflicts"))
    for job in how_to.jobs(page):
        objects = rendered({**job, "metadata": {**job["metadata"], "namespace": team}})
        for item in objects:
            item["metadata"].pop("ownerReferences", None)  # the job has no uid yet
        assert len(apply(server, user, objects, f"--namespace={team}", "--dry-run=server")) == len(objects)


@pytest.mark.usefixtures("shared_operator")
def test_a_quota_for_gpus_admits_one_pod_and_blocks_the_job(server: ControlPlane, user: UserClient):
    found = how_to.manifests(how_to.FOLDER / "multi-tenancy.md")
    quota, limits = (
        deepcopy(next(item for item in found if item["kind"] == kind)) for kind in ("ResourceQuota", "LimitRange")
    )
    for item in (quota, limits):
        item["metadata"]["namespace"] = user.namespace
    quota["spec"]["hard"]["requests.nvidia.com/gpu"] = "1"
    apply(server, user, [quota, limits])
    path = f"/api/v1/namespaces/{user.namespace}/resourcequotas/{quota['metadata']['name']}"
    eventually(lambda: "hard" in user.call("GET", path).get("status", {}))
    (job,) = deepcopy(how_to.jobs(how_to.FOLDER / "gpus.md"))
    for group in job["spec"]["pytorchReplicaSpecs"].values():
        group["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    user.create(job)
    blocked = eventually(lambda: user.conditions("PyTorchJob", "gpus").get("Blocked"))
    assert (blocked["status"], blocked["reason"]) == ("True", "QuotaExceeded")
    assert "requests.nvidia.com/gpu" in blocked["message"]
    assert "1 of 2 pods created" in blocked["message"]
    assert len(user.pods()) == 1


def notebook(server: ControlPlane, user: UserClient, folder: Path, *blocks: str) -> str:
    """Run blocks of Python with the unmodified v1 SDK as a user whose kubeconfig names the namespace; their output."""
    assert SDK.exists(), "make venv-sdk"
    config = yaml.safe_load(server.kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = user.namespace
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    script = folder / "notebook.py"  # the SDK reads the source of the function from a file
    script.write_text("\n".join(blocks).replace("team-a", user.namespace))
    environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig")}
    done = subprocess.run([SDK, script], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.usefixtures("shared_operator")
def test_the_notebook_page_works_with_the_unmodified_sdk(
    server: ControlPlane, user: UserClient, kubelet: FakeKubelet, tmp_path: Path
):
    create, running, logs, status, end = how_to.code(how_to.FOLDER / "notebook.md", "python")
    assert "get_job_logs" in logs  # needs a kubelet
    printed = notebook(server, user, tmp_path, create, running)
    names = ["from-a-notebook-master-0", "from-a-notebook-worker-0", "from-a-notebook-worker-1"]
    assert all(name in printed for name in names)
    (container,) = user.pod(names[0])["spec"]["containers"]
    assert "def train(parameters)" in " ".join(container["args"])
    assert container["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    again = create[: create.index("\n\n\ndef")] + '\nclient = TrainingClient(job_kind="PyTorchJob")\n'
    assert notebook(server, user, tmp_path, again, status).strip() == "None"
    kubelet.end(names[0], 0)
    assert "PyTorchJob from-a-notebook is successfully completed." in notebook(server, user, tmp_path, again, end)
    eventually(lambda: user.job("PyTorchJob", "from-a-notebook") is None)

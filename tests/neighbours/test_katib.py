"""Katib's examples report their metrics: its collector is a sidecar that begins to report when the training ends.

The jobs are those of Katib's repository, and their pods are changed as its webhook changes them. The collector is its
own program, built from its module; it finds the training among the processes of the pod. Each training is a program
that prints a loss, without `mpirun`; instead of katib-db-manager, which needs a database, a program prints the reports.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from support.reported import job as reported_job
from support.user_client import UserClient, eventually
from testbed.binaries import binary, module_folder
from testbed.ports import free_port

from .conftest import Bed
from .process_pods import ProcessPods

pytestmark = pytest.mark.long

GROUP, LOG = "katib", "/var/log/katib/metrics.log"
EXAMPLES = "examples/v1beta1/kubeflow-training-operator"
#: The role whose pods get the collector.
PRIMARY = {"pytorchjob-mnist": "Master", "tfjob-mnist-with-summaries": "Worker", "mpijob-horovod": "Launcher"}
PROGRAM = "import time\nfor loss in (0.9, 0.5, 0.25):\n    print(f'loss={loss}', flush=True)\n    time.sleep(1)\n"


@pytest.fixture
def user(bed: Bed, operator: object) -> UserClient:
    return UserClient.somewhere(bed.kubeconfig)


@contextmanager
def manager(folder: Path) -> Iterator[tuple[str, Path]]:
    """Run what collectors report to: its address, and the file of the reports."""
    address, reports = f"127.0.0.1:{free_port()}", folder / "reports"
    with reports.open("wb") as file:
        process = subprocess.Popen([str(binary(GROUP, "katib-db-manager")), address], stdout=file)
    try:
        yield address, reports
    finally:
        process.kill()
        process.wait(10)


def trial(example: str, program: Path) -> dict:
    """Return the job of a trial of an example; where it runs Python, it runs this program."""
    text = (module_folder(GROUP) / EXAMPLES / f"{example}.yaml").read_text()
    spec = yaml.safe_load(text)["spec"]["trialTemplate"]["trialSpec"]
    job = json.loads(re.sub(r"\$\{trialParameters\.\w+\}", "1", json.dumps(spec)))
    for group in groups(job).values():
        (container,) = group["template"]["spec"]["containers"]
        words = [*container.get("command", ()), *container.pop("args", ())]
        if words:
            script = next(number for number, word in enumerate(words) if word.endswith(".py"))
            container["command"] = [sys.executable, str(program), *words[script + 1 :]]
    return job | {"metadata": {"name": "trial"}}


def groups(job: dict) -> dict:
    return next(value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs"))


def with_collector(template: dict, address: str) -> None:
    """Change a pod template as Katib's webhook changes pods (pkg/webhook/v1beta1/pod)."""
    pod, (container,) = template["spec"], template["spec"]["containers"]
    folder = Path(LOG).parent
    words = [*container["command"], f"1>{LOG} 2>&1 && echo completed > {folder}/$$$$.pid"]
    container |= {"command": ["sh", "-c"], "args": [f"mkdir -p {folder}; {' '.join(words)}"]}
    args = ["-t", "trial", "-m", "loss", "-o-type", "minimize", "-s-db", address, "-path", LOG, "-format", "TEXT"]
    program = [str(binary(GROUP, "file-metricscollector"))]
    pod["containers"].append({"name": "metrics-logger-and-collector", "image": "x", "command": program, "args": args})
    pod["shareProcessNamespace"] = True


@pytest.mark.parametrize(
    ("example", "policy"),
    [
        ("pytorchjob-mnist", {"cleanPodPolicy": "Running"}),
        ("pytorchjob-mnist", {"ttlSecondsAfterFinished": 0}),
        ("tfjob-mnist-with-summaries", {"cleanPodPolicy": "All"}),
        ("mpijob-horovod", {}),
    ],
)
def test_a_trial_reports_its_metrics(example: str, policy: dict, user: UserClient, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    job = trial(example, tmp_path / "train.py")
    job["spec"].setdefault("runPolicy", {}).update(policy)
    with manager(tmp_path) as (address, reports), ProcessPods(user, tmp_path) as pods:
        with_collector(groups(job)[PRIMARY[example]]["template"], address)
        user.create(job)
        try:
            eventually(lambda: reports.read_text().endswith("\n"), 60)
        except AssertionError:
            print(*pods.output(), sep="\n")
            raise
        report = json.loads(reports.read_text().splitlines()[0])
        losses = {log["metric"]["value"] for log in report["observation_log"]["metric_logs"]}
        assert (report["trial_name"], losses) == ("trial", {"0.9", "0.5", "0.25"})
        deleted = "ttlSecondsAfterFinished" in policy
        eventually(lambda: deleted or user.state(job["kind"], "trial") == "Succeeded", 20)
        eventually(lambda: not deleted or user.job(job["kind"], "trial") is None, 20)


@pytest.mark.reported("09-collector-sidecar")
@pytest.mark.parametrize("policy", [{"cleanPodPolicy": "Running"}, {"cleanPodPolicy": "All"}])
def test_the_reported_sidecar_ends_by_itself(policy: dict, user: UserClient, tmp_path: Path) -> None:
    job = reported_job("09-collector-sidecar") | {"metadata": {"name": "trial"}}
    job["spec"]["runPolicy"] = policy
    for container in groups(job)["Master"]["template"]["spec"]["containers"]:
        container["command"][2] = container["command"][2].replace("/m/", "/var/log/")
    with ProcessPods(user, tmp_path) as pods:
        user.create(job)
        eventually(lambda: user.state("PyTorchJob", "trial") == "Succeeded", 30)
        eventually(lambda: any("REPORTED" in text for text in pods.output()), 10)

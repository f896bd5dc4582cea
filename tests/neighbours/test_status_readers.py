"""Katib's, Argo's and Flux's conditions on the documentation's pages, evaluated on the status of jobs in all states."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from support.builders import a_job, a_pod, at, plan_for, replace, run_policy, running
from testbed.binaries import own
from trainshed.api import status_codec
from trainshed.api.status import Status
from trainshed.plan.conditions import with_state

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
JOB = a_job("PyTorchJob", master=1, worker=1)


def evaluate(tool: str, job: dict, argument: str = "") -> str:
    """What a tool says of a job: `gjson`, `selector`, `kstatus`, `cel` or `lua`, with its expression or script."""
    command = [str(own("evaluators", 2)), tool, argument]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def block(title: str, language: str) -> str:
    """The first block of a section."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    found = re.search(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def pod(replica: str, phase: str = "Running", **fields):
    return a_pod(replica, phase, container="pytorch", **fields)


def statuses() -> dict[str, Status]:
    """A status of each state; a job of a queue that ends is `Ending`."""
    runs, pair = running(JOB), (pod("master-0"), pod("worker-0"))
    won, lost = pod("master-0", "Succeeded", code=0, ended=5), pod("master-0", "Failed", code=1, ended=5)
    retried = a_job("PyTorchJob", restart="OnFailure", master=1, worker=1)
    evicted = replace(pod("worker-0", "Failed"), reason="Evicted")
    return {
        "": Status(),
        "Created": plan_for(JOB, pod("master-0", "Pending"), pod("worker-0", "Pending")).status,
        "Running": runs,
        "Restarting": plan_for(retried, pod("master-0"), evicted, status=runs, now=at(9)).status,
        "Suspended": plan_for(replace(JOB, policy=run_policy(suspend=True)), *pair, status=runs, now=at(9)).status,
        "Blocked": plan_for(JOB, refusal=("Forbidden", "exceeded quota")).status,
        "Succeeded": plan_for(JOB, won, pair[1], status=runs, now=at(9)).status,
        "Failed": plan_for(JOB, lost, pair[1], status=runs, now=at(9)).status,
        "Ending": plan_for(replace(JOB, queued=True), won, pair[1], status=runs, now=at(9)).status,
    }


def document(status: Status) -> dict:
    head = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "mnist", "generation": 3}}
    return head | {"status": status_codec.status_document(with_state(status))}


JOBS = {name: document(status) for name, status in statuses().items()}


def test_each_status_is_of_the_state_that_it_stands_for():
    found = {name: job["status"].get("state", "") for name, job in JOBS.items()}
    assert found == {name: name for name in JOBS} | {"Ending": "Running"}


@pytest.mark.parametrize("name", JOBS)
def test_katibs_conditions_find_the_end_of_a_trial(name):
    conditions = yaml.safe_load(block("Katib", "yaml"))["trialTemplate"]
    met = {key: bool(json.loads(evaluate("gjson", JOBS[name], text) or "[]")) for key, text in conditions.items()}
    assert met == {"successCondition": name == "Succeeded", "failureCondition": name == "Failed"}


@pytest.mark.parametrize("name", JOBS)
def test_argo_workflows_conditions_find_the_end_of_a_resource(name):
    resource = yaml.safe_load(block("Argo Workflows", "yaml"))["resource"]
    met = {key: evaluate("selector", JOBS[name], resource[key]) for key in ("successCondition", "failureCondition")}
    assert met == {
        "successCondition": str(name == "Succeeded").lower(),
        "failureCondition": str(name == "Failed").lower(),
    }


def test_argo_workflows_can_compare_counts_that_are_not_zero():
    assert evaluate("selector", JOBS["Succeeded"], "status.replicaStatuses.Master.succeeded == 1") == "true"
    assert evaluate("selector", JOBS["Running"], "status.replicaStatuses.Master.failed == 0") == "false"


@pytest.mark.parametrize(
    ("name", "health"),
    [
        ("", "Progressing"),
        ("Created", "Progressing"),
        ("Running", "Healthy"),
        ("Restarting", "Progressing"),
        ("Suspended", "Suspended"),
        ("Blocked", "Degraded"),
        ("Succeeded", "Healthy"),
        ("Failed", "Degraded"),
        ("Ending", "Healthy"),
    ],
)
def test_argo_cds_health_check_says_how_a_job_is_and_why(name, health):
    found, message = evaluate("lua", JOBS[name], block("Argo CD", "lua")).split(": ", 1)
    assert found == health
    status = JOBS[name]["status"]
    causes = [status["blocked"]] if name == "Blocked" else status.get("conditions", [])
    assert message in [cause["message"] for cause in causes] or name == ""


@pytest.mark.parametrize("name", ["string", "math", "io", "os.execute", "coroutine"])
def test_argo_cds_scripts_have_no_other_libraries(name):
    assert evaluate("lua", JOBS["Running"], f"return {{status = {name} and 'Degraded' or 'Healthy'}}") == "Healthy: nil"


@pytest.mark.parametrize("name", JOBS)
def test_fluxs_expressions_are_true_one_at_a_time(name):
    (expressions,) = yaml.safe_load(block("Flux", "yaml"))["healthCheckExprs"]
    met = {
        key for key in ("current", "failed", "inProgress") if evaluate("cel", JOBS[name], expressions[key]) == "true"
    }
    assert met == {{"Succeeded": "current", "Failed": "failed"}.get(name, "inProgress")}


def test_kstatus_takes_a_job_for_current_as_soon_as_it_exists():
    assert {evaluate("kstatus", job) for job in JOBS.values()} == {"Current"}

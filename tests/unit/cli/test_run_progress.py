"""A training that `trainshed run` runs reports how far it is without any set-up, by its logs or by itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.local_runs import Machine, a_job, permitted
from trainshed.api.job_annotations import PROGRESS

#: The requests of a Trainer of transformers 5.24.
RECORDED = Path(__file__).parents[2] / "support/kubeflow_callback.json"
#: Posts reports as Trainer's clients do: those of Hugging Face, recorded, to its own job, then what is refused.
CLIENT = """
import json, os, ssl, stat, sys, time, urllib.error, urllib.request
def post(body, token=None, url=os.environ["KUBEFLOW_TRAINER_SERVER_URL"]):
    context = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
    token = token or open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read().strip()
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        return opener.open(request, timeout=5).status
    except urllib.error.HTTPError as refused:
        return refused.code
file = os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]
modes = (os.stat(path).st_mode & 0o777 for path in (file, os.path.dirname(file)))
print("modes", *map(oct, modes), "token", len(open(file).read()))
codes = []
for body in json.loads(sys.argv[1]):
    codes.append(post(body))
    time.sleep(1.5)  # workers end meanwhile
others = os.environ["KUBEFLOW_TRAINER_SERVER_URL"].replace("/job/", "/other/")
codes += [post({}, token="guessed"), post({}, url=others)]
print("codes", *codes)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def asking(job: dict, source: str) -> dict:
    return job | {"metadata": {**job["metadata"], "annotations": {PROGRESS: source}}}


def reporting(name: str, script: str, *words: str) -> dict:
    """Return a job whose master runs a Python script, and whose workers end soon."""
    job = asking(a_job("sleep 0.5", workers=3, restart="Never"), "Endpoint")
    command = [sys.executable, "-c", script.replace("$", "$$"), *words]
    container = {"name": "pytorch", "image": "x", "command": command}
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"] = {"spec": {"containers": [container]}}
    job["metadata"]["name"] = name
    return job


@pytest.mark.parametrize("runtime", ["processes", "namespaces"])
def test_a_training_reports_its_progress_to_the_run(machine, runtime):
    permitted(runtime)
    reports = [request["body"] for request in json.loads(RECORDED.read_text())]
    other = reporting("other", "import time; time.sleep(3)")
    done = machine.run(
        reporting("job", CLIENT, json.dumps(reports)), other, runtime=runtime, arguments=("--output", "json")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.rpartition(" | ")[2] for line in done.stderr.splitlines()]
    assert "modes 0o600 0o700 token 43" in said, "other users of the machine cannot read it"
    assert f"codes {'200 ' * len(reports)}403 403" in said, done.stderr
    [status] = [job["status"] for job in json.loads(done.stdout)["jobs"] if job["name"] == "job"]
    last = reports[-1]["trainerStatus"]
    assert status["trainerStatus"]["progressPercentage"] == last["progressPercentage"]
    assert status["trainerStatus"]["metrics"][0] == last["metrics"][0]
    assert status["progress"] == "100%"
    assert done.stderr.count("ProgressReportRefused") == 2, "of each of both jobs"


def test_the_summary_has_what_was_reported_and_not_what_the_output_says_of_something_else(machine):
    report = {"trainerStatus": {"progressPercentage": 42, "estimatedRemainingSeconds": 120}}
    script = CLIENT.partition("file =")[0] + "print('step 1/9 loss=3'); post(json.loads(sys.argv[1]))"
    done = machine.run(reporting("job", script, json.dumps(report)))
    expected = "Progress:  42%"  # and no time that is left: it is over
    assert expected in done.stdout.splitlines(), done.stdout + done.stderr


def test_what_the_output_says_is_in_the_status_of_a_job_that_asks_for_its_logs(machine):
    job = asking(a_job("echo step 10/100 loss=0.5; sleep 1; echo -n step 100/100 loss=0.25", restart="Never"), "Logs")
    done = machine.run(job, arguments=("--output", "json"))
    [found] = json.loads(done.stdout)["jobs"]
    assert found["status"]["trainerStatus"]["step"] == found["status"]["trainerStatus"]["totalSteps"] == 100
    assert found["status"]["trainerStatus"]["metrics"] == [{"name": "loss", "value": "0.25"}]
    assert [event["reason"] for event in found["events"] if "Progress" in event["reason"]] == []

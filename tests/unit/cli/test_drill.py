"""`trainshed drill` names what is wrong with a training, seen on real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner

from support.local_runs import SOON, a_job, permitted
from trainshed.cli import cli
from trainshed.drill.faults import QUICK
from trainshed.drill.outcome import DrillOutcome

from .fake_engine import installed

TRAINING = Path(__file__).parent / "drilled/training.py"
CLAIM = {"name": "checkpoints", "persistentVolumeClaim": {"claimName": "checkpoints"}}


def training(flaw: str, how: str = "", **spec) -> dict:
    """A job of three replicas that runs the training with a flaw; its checkpoints are on a claim."""
    job = a_job("", workers=2, volumes=[CLAIM], **spec)
    job["metadata"]["annotations"] = {"trainshed.dev/progress": how} if how else {}
    for group in job["spec"]["pytorchReplicaSpecs"].values():
        group["template"]["spec"]["containers"][0] |= {
            "command": [sys.executable, str(TRAINING), flaw],
            "env": [{"name": "CHECKPOINTS", "value": "/checkpoints"}],
            "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
        }
    return job


class Drills:
    """Runs drills with a state folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept = folder / "state" / "trainshed-drills"

    def command(
        self, job: dict, *arguments: str, faults: tuple[dict, ...] = (), runtime: str = "processes"
    ) -> list[str]:
        (self.folder / "job.yaml").write_text(yaml.safe_dump_all([job] if isinstance(job, dict) else job))
        if faults:
            (self.folder / "faults.yaml").write_text(yaml.safe_dump({"faults": list(faults)}))
            arguments += ("--script", str(self.folder / "faults.yaml"))
        fixed = ("--state", str(self.folder / "state"), "--runtime", runtime, "-f", str(self.folder / "job.yaml"))
        return [sys.executable, "-m", "trainshed", "drill", *fixed, *arguments]

    def run(self, job: dict, *arguments: str, **how) -> subprocess.CompletedProcess[str]:
        command = self.command(job, *arguments, **how)
        return subprocess.run(command, capture_output=True, text=True, timeout=10 * SOON, check=False, cwd=self.folder)

    def verdicts(self, job: dict, *names: str) -> tuple[int, dict[str, dict]]:
        """Return the exit code, and the verdicts by the name of the fault."""
        done = self.run(job, "--output", "json", faults=tuple({"fault": name} for name in names))
        found = json.loads(done.stdout)["verdicts"]
        return done.returncode, {verdict["fault"]: verdict for verdict in found}


@pytest.fixture
def drills(tmp_path: Path) -> Drills:
    return Drills(tmp_path)


@pytest.mark.parametrize("runtime", ["processes", "namespaces"])
def test_a_good_training_survives(drills, runtime):
    permitted(runtime)
    done = drills.run(training("none"), "--quick", "--junit", "junit.xml", runtime=runtime)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "it saved 20 times: checkpoint.json, each a new file that was renamed" in done.stdout
    assert re.search("killed (while|right after) checkpoint.new was (being )?written", done.stdout)
    assert "resumed with 2 in place of 3 replicas" in done.stdout
    assert done.stdout.count("PASSED") == 4
    assert done.stdout.count("SIGTERM was used to save, within the grace period") == 3
    assert done.stdout.splitlines()[-1].startswith("PyTorchJob default/job has survived all 4 faults, in ")
    suite = ET.parse(drills.folder / "junit.xml").getroot()
    assert [case.get("name") for case in suite] == [fault.name for fault in QUICK]
    assert (drills.folder / "junit.xml").stat().st_mode & 0o777 == 0o600
    assert [*drills.kept.iterdir()] == [], "what is not needed is removed"


def test_other_faults_are_survived_by_a_good_training(drills):
    names = ("kill-all", "evict", "lose-node", "oom")
    code, found = drills.verdicts(training("none"), *names)
    assert code == 0, found
    assert {name: found[name]["sigterm"] for name in names} == dict.fromkeys(names, "used") | {"kill-all": ""}


#: Each flaw with the fault that shows it, its cause, and what is said of it.
FLAWS = {
    "none": ("kill-all", "", "it went on at step"),
    "never-loads": ("kill-all", "NeverLoadsCheckpoint", "it saves checkpoint.json, and does not load it"),
    "torn": ("kill-in-write", "TornCheckpoint", "JSONDecodeError"),
    "ignores-sigterm": ("suspend", "IgnoresSigterm", "it went on at step"),
    "one-size": ("resize", "BreaksAtOtherSize", "checkpoint of 3 ranks cannot be loaded by 2"),
}


@pytest.mark.parametrize("how", ["", "Endpoint"])
@pytest.mark.parametrize("flaw", FLAWS)
def test_what_is_wrong_with_a_training_is_named_however_it_says_its_steps(drills, flaw, how):
    name, cause, said = FLAWS[flaw]
    code, found = drills.verdicts(training(flaw, how), name)
    verdict = found[name]
    assert (code, verdict["cause"]) == (int(flaw != "none"), cause), found
    assert said in verdict["sentences"][1]
    if flaw == "none":
        assert 0 <= verdict["lostSteps"] < verdict["atStep"]
    if flaw == "never-loads":
        assert verdict["resumedAt"] == 1
    if flaw == "torn":
        assert re.search("killed (while|right after) checkpoint.json was", verdict["sentences"][0])
    if flaw == "ignores-sigterm":
        assert (verdict["sigterm"], verdict["deadlineKept"]) == ("ignored", False)


def test_a_training_that_never_loads_is_named_after_a_kill_in_a_write_too(drills):
    code, found = drills.verdicts(training("never-loads"), "kill-in-write")
    assert (code, found["kill-in-write"]["cause"]) == (1, "NeverLoadsCheckpoint")


#: Prints steps, saves small files that no kill can hit, in place or by renaming, and never loads them.
QUICK_WRITES = """
import os, sys, time
for step in range(60):
    time.sleep(0.05)
    print(f"step={step} loss={1 / (step + 1):.3f}", flush=True)
    if step % 5 == 0:
        draft = sys.argv[1] + ("/final" if sys.argv[2] == "in-place" else "/draft")
        with open(draft, "w") as file:
            file.write(str(step))
        os.rename(draft, sys.argv[1] + "/final")
"""


def script(text: str, *words: str, **more) -> dict:
    """A job whose master runs a Python script, with a worker that sleeps."""
    job = a_job("sleep 60", workers=1, **more)
    command = [sys.executable, "-c", text.replace("$", "$$"), *words]
    container = {"name": "pytorch", "image": "x", "command": command}
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"] = {"spec": {"containers": [container]}}
    return job


@pytest.mark.parametrize(("how", "said"), [("in-place", "the file was emptied"), ("renamed", "right after draft was")])
def test_a_write_that_is_too_short_to_be_hit_is_judged_by_how_it_is_done(drills, how, said):
    arguments = ("--checkpoints", "saves", "--output", "json")
    job = script(QUICK_WRITES, str(drills.folder / "saves"), how)
    done = drills.run(job, *arguments, faults=({"fault": "kill-in-write", "atStep": 20},))
    [verdict] = json.loads(done.stdout)["verdicts"]
    assert verdict["cause"] == "NeverLoadsCheckpoint"
    assert said in verdict["sentences"][0]
    assert [*(drills.folder / "saves").iterdir()] == [], "each run begins without"
    assert (Path(verdict["logs"]) / "checkpoints" / "final").exists()
    assert Path(verdict["logs"]).stat().st_mode & 0o777 == 0o700


def test_checkpoints_that_are_there_are_left_alone(drills):
    (drills.folder / "saves").mkdir()
    (drills.folder / "saves" / "mine").write_text("x")
    done = drills.run(training("none"), "--checkpoints", "saves")
    assert done.returncode == 1
    assert "a drill begins without checkpoints, and this is not empty" in done.stderr
    assert (drills.folder / "saves" / "mine").read_text() == "x"


def test_host_paths_that_are_created_are_stood_in_for(drills):
    (drills.folder / "real").mkdir()
    (drills.folder / "real" / "checkpoint.json").write_text('{"step": 90, "loss": 1, "world": 3}')
    job = training("none")
    for group in job["spec"]["pytorchReplicaSpecs"].values():
        path = {"path": str(drills.folder / "real"), "type": "DirectoryOrCreate"}
        group["template"]["spec"]["volumes"] = [{"name": "checkpoints", "hostPath": path}]
    done = drills.run(job, faults=({"fault": "kill-rank"},))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "steps 1 to 100" in done.stdout
    assert "it saved 20 times: checkpoint.json" in done.stdout
    assert [path.name for path in (drills.folder / "real").iterdir()] == ["checkpoint.json"]


def test_an_example_survives_its_drill(drills):
    """The others, which need libraries, are drilled by the tests with an engine."""
    example = Path(__file__).parents[3] / "examples/pytorch/survivor.yaml"
    faults = tuple({"fault": name} for name in ("suspend", "resize", "kill-in-write"))
    done = drills.run(yaml.safe_load_all(example.read_text()), faults=faults)
    assert done.returncode == 0, done.stdout + done.stderr


def test_epochs_count_as_steps_if_nothing_else_is_printed(drills):
    epochs = "i=1; while [ $i -lt 40 ]; do echo epoch $i loss 0.$i; i=$((i+1)); sleep 0.1; done"
    done = drills.run(a_job(epochs), faults=({"fault": "kill-all"},))
    assert "steps 1 to 39" in done.stdout
    assert "it began again at step 1" in done.stdout


def test_a_training_that_says_nothing_is_not_passed(drills):
    done = drills.run(a_job("sleep 1"), faults=({"fault": "kill-rank"}, {"fault": "oom"}))
    assert done.returncode == 3
    assert done.stdout.count("NOT SEEN") == 2
    assert "NoSteps: print a line such as `step=10/100 loss=0.5`" in done.stdout


def test_a_job_that_is_not_retried_is_named(drills):
    job = training("none")
    for group in job["spec"]["pytorchReplicaSpecs"].values():
        group["restartPolicy"] = "Never"
        env = group["template"]["spec"]["containers"][0]["env"]
        env.append({"name": "STEP_SECONDS", "value": "0.15"})  # the others must not succeed before it is seen
    code, found = drills.verdicts(job, "kill-rank")
    assert (code, found["kill-rank"]["cause"]) == (1, "NotRetried")


def test_a_training_stands_still_in_containers_of_an_engine(drills, monkeypatch):
    engine = installed(drills.folder, monkeypatch)
    steps = "i=1; while [ $i -lt 60 ]; do echo step=$i loss=0.$i; i=$((i+1)); sleep 0.1; done"
    done = drills.run(a_job(steps), faults=({"fault": "stall", "seconds": 1},), runtime="docker")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "job-worker-0 stood still for 1 s" in done.stdout
    assert [len([*engine.calls(verb)]) for verb in ("pause", "unpause")] == [1, 1]


@pytest.mark.parametrize(("restart", "said"), [("ExitCode", "failed"), ("OnFailure", "it failed again and again")])
def test_a_job_that_fails_anyway_is_not_drilled(drills, restart, said):
    done = drills.run(a_job("echo no data; exit 3", restart=restart))
    assert done.returncode == 1
    assert "Error: the job fails here without any fault: " in done.stderr
    assert said in done.stderr
    assert "its last line: no data" in done.stderr


def test_fewer_replicas_are_drilled_and_a_limit_of_steps_is_kept(drills):
    arguments = ("--replicas", "worker=1", "--steps", "40")
    done = drills.run(training("none"), *arguments, faults=({"fault": "resize"}, {"fault": "resize", "replicas": 1}))
    assert done.returncode == 3, done.stdout + done.stderr
    last = int(re.search(r"without a fault: steps 1 to (\d+) ", done.stdout)[1])
    assert 40 <= last < 100, "it is ended soon after that step, but not before"
    assert "resumed with 3 in place of 2 replicas" in done.stdout
    assert "the job cannot have another number of replicas: it has 1 already" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "faults", "said"),
    [
        (("--replicas", "Evaluator=2"), (), "there are no replicas of the type Evaluator; there are Master, Worker"),
        (("--replicas", "Worker"), (), "'Worker' is not a type of replicas and a number"),
        (("--replicas", "Worker=\u0663"), (), "is not a type of replicas and a number"),
        ((), ({"fault": "evict", "replica": "chief-0"},), "there is no replica chief-0; there are job-master-0"),
        ((), ({"fault": "evict", "step": 3},), "faults[0]: Object contains unknown field `step`"),
        (("--quick",), ({"fault": "evict"},), "--quick has faults of its own"),
        (("--steps", "3"), (), "3 is not in the range x>=6"),
        (("--timeout", "nan"), (), "'nan' is no number"),
        (("--tolerance", "NaN"), (), "'NaN' is no number"),
        (("--timeout", "inf"), (), "'inf' is no number"),
        (("--junit", "nowhere/drill.xml"), (), "--junit nowhere/drill.xml: there is no such folder"),
        (("--replicas", "Worker=999999"), (), "must be less than or equal to 100000"),
        (("--replicas", "Worker=9999"), (), "there are 10000 replicas; a run on one machine has at most 2000"),
        ((), ({"fault": "stall", "seconds": float("nan")},), ".nan has no value in JSON"),
        ((), ({"fault": "kill-all", "atStep": 10**40},), "faults[0].atStep"),
        ((), ({"fault": "\x1b[31mred"},), "known faults are kill-rank"),
    ],
)
def test_what_cannot_be_drilled_is_said(drills, arguments, faults, said):
    done = drills.run(training("none"), *arguments, faults=faults)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_drill_is_of_one_job(drills):
    job = training("none")
    other = job | {"metadata": {"name": "other"}}
    done = drills.run({"apiVersion": "v1", "kind": "List", "items": [job, other]})
    assert "a drill is of one job; there are 2: PyTorchJob job, PyTorchJob other" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_a_drill_and_all_replicas(drills, number):
    command = drills.command(training("none", terminationGracePeriodSeconds=600), "--quick")
    variables = os.environ | {"STATE_OF_TEST": str(drills.folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables) as drill:
        assert drill.stdout is not None
        for line in drill.stdout:
            if "it saved" in line:
                break
        drill.send_signal(number)
        _, errors = drill.communicate(timeout=SOON)
    assert drill.returncode == 130
    assert errors.startswith(f"interrupted; logs and checkpoints until then: {drills.kept}")
    assert "Traceback" not in errors


def test_a_report_is_printed_before_a_file_for_it_fails(monkeypatch):
    outcome = DrillOutcome("PyTorchJob ml/mnist", ("steps 1 to 60",), (), 12.0)
    monkeypatch.setattr("trainshed.cli.drill._drill", lambda *_, **__: outcome)
    result = CliRunner().invoke(cli, ["drill", "-f", "job.yaml", "--output", "json", "--junit", "/proc/drill.xml"])
    assert (result.exit_code, json.loads(result.stdout)["job"]) == (1, "PyTorchJob ml/mnist")
    assert result.stderr.startswith("Error: --junit: ")

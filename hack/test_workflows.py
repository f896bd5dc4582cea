"""The workflows of the forge call make alone, with few rights and pinned actions, and actionlint accepts them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from testbed.binaries import binary, folder

ROOT = Path(__file__).parents[1]
FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
#: A commit, and in a comment the version that it is.
PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
EACH = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)


def jobs(workflow: Path) -> list[dict]:
    return list(yaml.safe_load(workflow.read_text())["jobs"].values())


def test_there_are_the_workflows_that_a_change_and_a_tag_need():
    assert [path.stem for path in WORKFLOWS] == ["check", "integration", "release"]


@EACH
def test_actionlint_accepts_a_workflow(workflow):
    if not (folder("actionlint") / "actionlint").exists() and not shutil.which("go"):
        pytest.skip("actionlint is missing, and so is Go to build it")
    command = [binary("actionlint", "actionlint"), "-no-color", "-shellcheck=", "-pyflakes=", workflow]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@EACH
def test_each_step_that_runs_something_runs_one_target_of_make(workflow):
    commands = [step["run"] for job in jobs(workflow) for step in job["steps"] if "run" in step]
    choices = {
        target for job in jobs(workflow) for target in job.get("strategy", {}).get("matrix", {}).get("target", ())
    }
    words = [command.split() for command in commands]
    assert words
    assert {program for program, *_ in words} == {"make"}
    assert ({target for _, target, *_ in words} - {"${{"}) | choices <= TARGETS
    assert {len(more) for _, _, *more in words} <= {0, 1, 2}


@EACH
def test_each_action_is_pinned_to_a_commit(workflow):
    used = re.findall(r"uses: (.+)", workflow.read_text())
    assert used
    assert [action for action in used if not PINNED.fullmatch(action)] == []


@EACH
def test_a_job_has_no_right_that_it_does_not_name(workflow):
    assert yaml.safe_load(workflow.read_text())["permissions"] == {}
    rights = {right for job in jobs(workflow) for right, verb in job["permissions"].items() if verb == "write"}
    wanted = {"attestations", "contents", "id-token", "packages"} if workflow.stem == "release" else set()
    assert rights == wanted


def test_each_path_with_an_owner_exists_and_so_do_the_folders_of_dependabot():
    lines = [line.split() for line in (FORGE / "CODEOWNERS").read_text().splitlines() if not line.startswith("#")]
    assert [path for path, *_ in lines if path != "*" and not (ROOT / path.strip("/")).exists()] == []
    assert [owner for _, *owners in lines for owner in owners if not owner.startswith("@trainshed/")] == []
    updates = yaml.safe_load((FORGE / "dependabot.yml").read_text())["updates"]
    folders = [name for update in updates for name in update.get("directories", [update.get("directory")])]
    assert [name for name in folders if not list(ROOT.glob(name.strip("/") or "*"))] == []

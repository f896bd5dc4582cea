"""Each command of users as one with ClusterRole `view`, one with `edit`, and one without rights."""

from __future__ import annotations

import json

import pytest

from support.jobs import pytorchjob
from support.people import READS, WRITES, person
from support.user_client import eventually

pytestmark = pytest.mark.usefixtures("shared_operator", "kubelet")
PEOPLE = {"view": READS, "edit": WRITES, "nothing": []}
PATCH, STACKS = 'cannot patch resource "pytorchjobs"', 'cannot patch resource "pods/ephemeralcontainers"'
NO_NODE = 'worker-0: pods "node-0" not found'
#: What the commands say to a user with `view`, and to one with `edit`: nothing if they do what they are asked for.
READING = {
    **dict.fromkeys(("get", "get -o yaml", "explain mnist", "events mnist", "wait mnist --for Running"), ("", "")),
    "top mnist": ("", ""),
    "logs mnist": (NO_NODE, NO_NODE),
    "stacks mnist --timeout 1s": (STACKS, STACKS),
    "whatif --like mnist --run-time 1h --histories 1": ("", ""),
}
CHANGING = {
    **dict.fromkeys(("restart mnist", "suspend mnist", "resume paused", "scale mnist --replicas 2"), (PATCH, "")),
    "delete mnist": ('cannot delete resource "pytorchjobs"', ""),
    "submit -f -": ('cannot create resource "pytorchjobs"', ""),
}


@pytest.mark.parametrize("who", PEOPLE)
def test_a_command_does_what_the_user_may_and_else_says_what_to_ask_for(server, user, tmp_path, who):
    user.create(elastic("mnist"))
    user.create(pytorchjob("paused", Worker=1, policy={"suspend": True}))
    eventually(lambda: [user.state("PyTorchJob", name) for name in ("mnist", "paused")] == ["Running", "Suspended"])
    actor = person(server, user, tmp_path, PEOPLE[who])
    for command, texts in (READING | CHANGING).items():
        text = dict(zip(PEOPLE, (*texts, "cannot "), strict=True))[who]
        changes = [["--dry-run"], []] if text else [["--dry-run"]]
        for more in changes if command in CHANGING else [[]]:
            done = actor.run(*command.split(), *more, stdin=json.dumps(elastic("other")))
            said = (command, *more, done.stdout, done.stderr)
            assert (done.returncode, text in done.stderr) == (1 if text else 0, True), said
            assert "Traceback" not in done.stderr, said
            assert bool(text or not more) or done.stdout.endswith("ed (server dry run)\n"), said
            if text.startswith("cannot ") and text != STACKS:
                (line,) = done.stderr.splitlines()
                where = f"in namespace {user.namespace}, which ClusterRole "
                assert (done.stdout, "Ask for the right to " in line, where in line) == ("", True, True), said
    assert [job["metadata"]["generation"] for job in user.jobs("PyTorchJob")] == [1, 1]


def elastic(name: str) -> dict:
    found = pytorchjob(name, Worker=1)
    found["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3}
    return found

"""`trainshed restart` between its two writes: conflicts, an operator that does not act, and Ctrl-C."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from click import ClickException

from support.virtual_time import in_virtual_time
from trainshed.api.job import QUEUE_LABEL
from trainshed.api.job_annotations import KUEUE
from trainshed.cli.connection import Cluster
from trainshed.cli.job_changes import Manner
from trainshed.cli.suspension import restart_all
from trainshed.client import ApiError, Conflict, NotFound, Unavailable
from trainshed.client.job_reader import JobReader
from trainshed.job_actions import TRIES

NAME = "pytorchjob/mnist"
SINCE = "2026-01-01T12:00:00Z"
QUEUED = {"labels": {QUEUE_LABEL: "research"}}
GROUPED = {"annotations": {KUEUE: "PodGroup"}}
RESOURCES = {"resources": [{"kind": "PyTorchJob", "name": "pytorchjobs"}]}


def condition(kind: str) -> dict:
    return {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": SINCE}]}


@dataclass
class ScriptedServer:
    """One job, whose version grows with each read; `errors` are what patches meet, and `acts` is the operator."""

    errors: list[ApiError | None] = field(default_factory=list)
    acts: bool = True
    state: str = ""
    version: int = 0
    marks: dict = field(default_factory=dict)
    written: list[tuple[str, bool]] = field(default_factory=list)

    def job(self, state: str) -> bytes:
        metadata = {"name": "mnist", "namespace": "ml", "uid": "u", "resourceVersion": str(self.version), **self.marks}
        return json.dumps({"metadata": metadata, "status": condition(state) if state else {}}).encode()

    async def call(self, verb: str, path: object, body: dict | None = None, query: object = None) -> bytes:
        del query
        if str(path).endswith("/mnist") and verb == "PATCH":
            if self.errors and (error := self.errors.pop(0)):
                raise error
            assert body is not None
            self.written.append((body["metadata"]["resourceVersion"], body["spec"]["runPolicy"]["suspend"]))
        elif str(path).endswith("/v1"):
            return json.dumps(RESOURCES).encode()
        elif not str(path).endswith("/mnist"):
            raise NotFound("no such resource")
        self.version += verb == "GET"
        return self.job(self.state)

    async def read_page(self, path: object, *_: object) -> bytes:
        if not str(path).endswith("jobs"):
            raise NotFound("there is no Kueue")
        return b'{"metadata": {"resourceVersion": "9"}, "items": [%s]}' % self.job(self.state)

    async def watch(self, *_: object) -> AsyncIterator[bytes]:
        yield b""
        if self.acts:
            self.version += 10
            yield b'{"type": "MODIFIED", "object": %s}' % self.job("Suspended")
        await asyncio.Event().wait()


async def restart(server: ScriptedServer, seconds: float | None = None, version: str = "") -> int:
    """Run the command; Ctrl-C after some seconds."""
    cluster = Cluster(JobReader(server), "ml", server)  # type: ignore[arg-type]
    async with asyncio.timeout(seconds):
        return await restart_all(cluster, ("mnist",), 60, manner=Manner(is_dry_run=False, version=version))


@pytest.mark.parametrize(
    ("server", "code", "written", "message"),
    [
        (ScriptedServer(), 0, [True, False], f"{NAME} restarted\n"),
        (ScriptedServer(errors=[Conflict("changed"), None]), 0, [True, False], f"{NAME} restarted\n"),
        (ScriptedServer(errors=[None, Conflict("changed")]), 0, [True, False], f"{NAME} restarted\n"),
        (ScriptedServer(errors=[Conflict("changed")] * TRIES), 1, [], "Error: changed\n"),
        (ScriptedServer(marks=QUEUED), 1, [], "Kueue starts and stops"),
        (ScriptedServer(marks=QUEUED | GROUPED), 0, [True, False], f"{NAME} restarted\n"),
        (ScriptedServer(acts=False), 1, [True, False], "the operator did not act in time. Does it run?"),
        (ScriptedServer(state="Succeeded"), 1, [], "has ended (Succeeded) and does not run again"),
        (ScriptedServer(errors=[Unavailable("no answer")]), 1, [], f"{NAME} may be suspended and not resumed yet"),
        (ScriptedServer(errors=[None, Unavailable("no answer")]), 1, [True], f"{NAME} is suspended and not resumed"),
    ],
)
def test_a_restart_is_whole_or_says_what_is_left_to_do(server, code, written, message, capsys):
    assert in_virtual_time(restart(server)) == code
    assert [suspend for _, suspend in server.written] == written
    assert message in "".join(capsys.readouterr())


def test_a_write_that_meets_a_conflict_is_of_the_job_as_it_is_then():
    server = ScriptedServer(errors=[Conflict("changed")])
    in_virtual_time(restart(server))
    assert server.written[0][0] == "2"


@pytest.mark.parametrize(
    ("version", "errors", "code", "written", "message"),
    [
        ("1", [], 0, [("1", True), ("1", False)], f"{NAME} restarted\n"),
        ("1", [None, Conflict("changed")], 0, [("1", True), ("12", False)], f"{NAME} restarted\n"),
        ("1", [Conflict("changed")], 1, [], "Error: changed\n"),
        ("0", [], None, [], f"{NAME} has changed: its resourceVersion is 1 now"),
    ],
)
def test_a_job_that_is_not_in_the_version_that_is_asked_for_is_not_changed(  # noqa: PLR0917
    version, errors, code, written, message, capsys
):
    server = ScriptedServer(errors=errors)
    said = ""
    try:
        assert in_virtual_time(restart(server, version=version)) == code
    except ClickException as error:
        assert code is None
        said = error.message
    assert server.written == written
    assert message in said + "".join(capsys.readouterr())


def test_ctrl_c_between_the_writes_says_how_to_go_on(capsys):
    server = ScriptedServer(acts=False)
    with pytest.raises(TimeoutError):
        in_virtual_time(restart(server, 5))
    assert (
        capsys.readouterr().err == f"{NAME} is suspended and not resumed yet: trainshed restart {NAME} -n ml goes on\n"
    )

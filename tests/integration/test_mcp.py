"""`trainshed mcp` over real pipes and a real API server, with the rights of the user who starts it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from support import FakeKubelet, UserClient
from support.jobs import pytorchjob
from support.people import READS, WRITES, Person, person
from support.user_client import eventually
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.usefixtures("shared_operator")
TOKEN = re.compile(r'"token": "(\w+)"')


def agent(who: Person) -> Client:
    words = ["-m", "trainshed", "mcp", "--allow-actions", *who.words]
    return Client(StdioServerParameters(command=sys.executable, args=words), read_timeout_seconds=300)


async def said(client: Client, name: str, **arguments: object) -> str:
    """What a tool returns, which is no error."""
    result = await client.call_tool(name, arguments)
    text = "\n".join(item.text for item in result.content)
    assert not result.is_error, text
    return text


async def refused(client: Client, name: str, **arguments: object) -> str:
    """The error of a tool."""
    result = await client.call_tool(name, arguments)
    assert result.is_error
    return result.content[0].text


async def test_an_agent_reads_and_changes_jobs_with_the_rights_of_its_user(
    server: ControlPlane, user: UserClient, tmp_path: Path, kubelet: FakeKubelet
):
    editor = person(server, user, tmp_path, WRITES)
    manifest = json.dumps(pytorchjob("mnist", Master=1, Worker=1))
    async with agent(editor) as client:
        token = TOKEN.search(await said(client, "submit", manifest=manifest))[1]
        assert user.jobs("PyTorchJob") == [], "a preview creates nothing"
        assert await said(client, "submit", manifest=manifest, token=token) == "pytorchjob/mnist created\n"
        eventually(lambda: user.state("PyTorchJob", "mnist") == "Running")
        of_tool, of_command = await said(client, "explain", jobs=["mnist"]), editor.says("explain", "mnist")
        assert re.sub(r"\d+s:", "", of_tool) == re.sub(r"\d+s:", "", of_command)
        assert "pytorchjob/mnist" in await said(client, "get")

        token = TOKEN.search(await said(client, "suspend", job="@latest"))[1]
        assert user.job("PyTorchJob", "mnist")["spec"].get("runPolicy", {}).get("suspend") is not True
        user.patch_job("PyTorchJob", "mnist", {"metadata": {"labels": {"changed": "yes"}}})
        assert "has been written since its preview" in await refused(client, "suspend", job="mnist", token=token)
        token = TOKEN.search(await said(client, "suspend", job="mnist"))[1]
        assert await said(client, "suspend", job="mnist", token=token) == "pytorchjob/mnist suspended\n"
        eventually(lambda: user.state("PyTorchJob", "mnist") == "Suspended" and not user.pods())

        token = TOKEN.search(await said(client, "restart", job="mnist"))[1]
        assert "is resumed" in await said(client, "restart", job="mnist", token=token)
        eventually(lambda: user.state("PyTorchJob", "mnist") == "Running")
        async with agent(person_who_reads(server, user, tmp_path)) as other:
            assert "Running" in await said(other, "get")
            assert "Ask for the right to" in await refused(other, "delete", job="mnist")
        token = TOKEN.search(await said(client, "delete", job="mnist"))[1]
        assert user.job("PyTorchJob", "mnist") is not None
        assert await said(client, "delete", job="mnist", token=token) == "pytorchjob/mnist deleted\n"
        eventually(lambda: user.job("PyTorchJob", "mnist") is None)


def person_who_reads(server: ControlPlane, user: UserClient, folder: Path) -> Person:
    """Another user of the same namespace, who may only read."""
    (folder / "other").mkdir()
    return person(server, user, folder / "other", READS, called="other")

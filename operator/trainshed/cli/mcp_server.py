"""Serves the tools of `trainshed mcp`: reads, and changes of which each has been previewed."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import click
import jsonschema
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as OfferedTool

from trainshed.api.foreign_text import inert, one_line
from trainshed.client import ApiError
from trainshed.client.credentials import NoCredentials
from trainshed.client.job_reader import NoSuchJob
from trainshed.views.rows import full_name, in_one_sentence

from . import mcp_tools
from .connection import ClusterOptions, connected, sentence
from .mcp_calls import Done, Runner
from .mcp_tools import NAMESPACE, TOKEN

INSTRUCTIONS = (
    "Tools about training jobs of kubeflow.org/v1 on Kubernetes, the same as the commands of `trainshed`. To find out"
    f" why a job does not run, begin with explain, then events, logs and report. {mcp_tools.DATA}"
)
#: The most previews that wait for their change, and the most characters of an error about arguments.
MOST_PREVIEWS, MOST_ERROR = 64, 500
STALE = (
    "Nothing is done: the token is of no preview, of another change, or the job has been written since its preview."
    " Call it without a token to preview it again."
)
Context = ServerRequestContext[Any]


@dataclass(frozen=True, slots=True)
class PreviewedChange:
    """A command that changes something, and what it must still be about: a job in a version, or a manifest."""

    words: tuple[str, ...]
    subject: tuple[str, ...]
    about: str = ""


class Tools:
    """The tools for one agent; `options` are the cluster and the namespace that the user has chosen."""

    def __init__(self, options: ClusterOptions, *, may_change: bool) -> None:
        self._options = options
        self._names = [*(mcp_tools.TOOLS if may_change else mcp_tools.READ)]
        self._runner = Runner()
        self._previews = dict[str, PreviewedChange]()

    async def listed(self, _context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        """Return all tools."""
        return ListToolsResult(tools=[_offered(name) for name in self._names])

    async def call(self, _context: Context, params: CallToolRequestParams) -> CallToolResult:
        """Run a tool; an error is a result that says what is wrong."""
        name, arguments = params.name, dict(params.arguments or {})
        if name not in self._names:
            return _error(f"there is no tool {name}; there are {', '.join(self._names)}")
        if problem := _problem(name, arguments):
            return _error(problem)
        if mcp_tools.TOOLS[name].changes:
            try:
                return await self._change(name, arguments)
            except (ApiError, NoCredentials, NoSuchJob, OSError) as error:
                return _error(sentence(error))
        words = mcp_tools.words(name, arguments, self._options)
        done = await self._runner.run(words, arguments.get("manifest", ""))
        return _result(done, is_error=bool(done.code) and not done.output)

    async def _change(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Preview a change, or make the one that was previewed with this token."""
        token, manifest = arguments.pop(TOKEN, ""), arguments.get("manifest", "")
        previewed = self._previews.pop(token, None) if token else None
        change = await self._read(name, arguments)
        if token:
            if previewed is None or (previewed.words, previewed.subject) != (change.words, change.subject):
                return _error(STALE)
            done = await self._runner.run(change.words, manifest, changes=True)
            return _result(done, is_error=bool(done.code))
        done = await self._runner.run(_with(change.words, "--dry-run"), manifest)
        if done.code:
            return _result(done, is_error=True)
        token = secrets.token_hex(8)
        self._previews[token] = change
        while len(self._previews) > MOST_PREVIEWS:
            del self._previews[next(iter(self._previews))]
        end = f'Nothing is changed yet. To do it, call {name} with the same arguments and "{TOKEN}": "{token}".'
        return _result(done, change.about, end)

    async def _read(self, name: str, arguments: Mapping[str, Any]) -> PreviewedChange:
        """Return the command for a change, of the one job as it is now; raises what `connected` and `find` raise."""
        chosen = self._options
        options = ClusterOptions(chosen.kubeconfig, chosen.context, arguments.get(NAMESPACE) or chosen.namespace)
        async with connected(options) as cluster:
            if "manifest" in arguments:
                text = hashlib.sha256(arguments["manifest"].encode(errors="replace")).hexdigest()
                words = _with(mcp_tools.words(name, arguments, options), "--no-follow")
                return PreviewedChange(words, (cluster.server, cluster.namespace, text))
            document, _ = await cluster.reader.find(cluster.namespace, arguments["job"])
        metadata = document["metadata"]
        given = {**arguments, "job": full_name(document), NAMESPACE: metadata["namespace"]}
        words = _with(mcp_tools.words(name, given, options), f"--resource-version={metadata['resourceVersion']}")
        return PreviewedChange(
            words, (metadata["uid"], metadata["resourceVersion"]), f"Now: {in_one_sentence(document)}"
        )


def server(options: ClusterOptions, *, may_change: bool) -> Server[Any]:
    """Return the server of the tools, which waits for a connection."""
    tools = Tools(options, may_change=may_change)
    return Server(
        "trainshed",
        version=version("trainshed"),
        instructions=INSTRUCTIONS,
        on_list_tools=tools.listed,
        on_call_tool=tools.call,
    )


async def serve(options: ClusterOptions, *, may_change: bool) -> None:
    """Serve the tools on standard input and output until the input ends."""
    served = server(options, may_change=may_change)
    async with stdio_server() as (reading, writing):
        await served.run(reading, writing, served.create_initialization_options())


def _with(words: list[str] | tuple[str, ...], option: str) -> tuple[str, ...]:
    """Return a command line with one more option."""
    return (words[0], option, *words[1:])


def _offered(name: str) -> OfferedTool:
    changes = mcp_tools.TOOLS[name].changes
    hints = ToolAnnotations(read_only_hint=not changes, destructive_hint=changes and name not in ("resume", "submit"))
    return OfferedTool(
        name=name, description=mcp_tools.description(name), input_schema=mcp_tools.schema(name), annotations=hints
    )


def _problem(name: str, arguments: dict[str, Any]) -> str:
    """Return what is wrong with the arguments of a call; empty if they are those of the tool."""
    error = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(mcp_tools.schema(name)).iter_errors(arguments)
    )
    if error is None:
        return ""
    where = f"{'.'.join(map(str, error.absolute_path))}: " if error.absolute_path else ""
    said = error.message if len(error.message) <= MOST_ERROR // 2 else f"{error.message[:100]}…{error.message[-100:]}"
    return f"bad arguments of {name}: {where}{said}"


def _error(text: str) -> CallToolResult:
    return CallToolResult(content=[_text(f"Error: {one_line(text, MOST_ERROR)}")], is_error=True)


def _result(done: Done, *more: str, is_error: bool = False) -> CallToolResult:
    """Return the output of a command, and after it what it said on standard error, its exit code, and more."""
    ended = f"exit code {done.code}" if done.code else ""
    texts = [done.output, done.notes, ended, *map(inert, more)]
    return CallToolResult(content=[_text(click.unstyle(text)) for text in texts if text], is_error=is_error)


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)

"""Runs a command in a replica of a local run, with the words of `kubectl exec` or of `ssh`.

A program of its own, which also runs with the Python of an image: only standard library, and nothing newer than Python
3.9. It sends the command to the run, over a socket whose path is in TRAINSHED_EXEC, and its standard streams with it.
The run wants its secret, which is in TRAINSHED_EXEC_SECRET.
"""

from __future__ import annotations

import array
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

#: The variable with the path of the socket.
VARIABLE = "TRAINSHED_EXEC"
#: The variable with the secret of the run.
SECRET = "TRAINSHED_EXEC_SECRET"  # noqa: S105 # nosec B105 - its name
#: The options of ssh that have a value.
SSH_VALUES = tuple("BbcDEeFIiJLlmOopQRSWw")
#: The exit code of ssh if it cannot connect.
UNREACHABLE = 255
#: What the run answers about a replica that has not started.
NOT_RUNNING = "the pod does not run"
USAGE = "kubectl of trainshed run: only `kubectl exec POD [--container NAME] -- COMMAND` is there"


def parse_kubectl(words: list[str]) -> tuple[str, str, list[str]] | None:
    """Return the pod, the container, which may be empty, and the command of a `kubectl exec`; None if it is none."""
    if words[:1] == ["wait"] and words[-1].startswith("pod/"):
        return words[-1][len("pod/") :], "", ["/bin/sh", "-c", ":"]  # a replica in which commands can run
    if not words or words[0] != "exec" or "--" not in words:
        return None
    middle = words.index("--")
    options, command = words[1:middle], words[middle + 1 :]
    pod, container = "", ""
    while options:
        word = options.pop(0)
        if word in ("-c", "--container"):
            container = options.pop(0) if options else ""
        elif word.startswith("--container="):
            container = word.split("=", 1)[1]
        elif not word.startswith("-"):
            pod = word
    return (pod, container, command) if pod and command else None


def parse_ssh(words: list[str]) -> tuple[str, str, list[str]] | None:
    """Return the pod, the container, which is empty, and the command of an `ssh HOST COMMAND`; None if it is none."""
    words = list(words)
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option[1:] in SSH_VALUES and words:
            words.pop(0)
    if not words[1:]:
        return None
    pod = words[0].split("@")[-1].split(".")[0]
    return pod, "", ["/bin/sh", "-c", " ".join(words[1:])]


def call(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Send a request with the standard streams; return the answer. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        os.chdir(Path(path).parent)  # the path may be too long for an address
        connection.connect(Path(path).name)
        streams = array.array("i", [0, 1, 2])
        content = json.dumps(request).encode() + b"\n"
        sent = connection.sendmsg([content], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        if content[sent:]:  # without content this would still fail if the answer is there and the run has closed
            connection.sendall(content[sent:])
        with connection.makefile() as answers:
            line = answers.readline()
    if not line:
        raise OSError("the run has ended")
    answer: dict[str, Any] = json.loads(line)
    return answer


def main(words: list[str]) -> int:
    """Run a command; return its exit code."""
    program = Path(words[0]).name
    if words[1:2] == ["auth"]:
        return 0  # a launcher may enter all replicas of its job
    parsed = (parse_ssh if program == "ssh" else parse_kubectl)(words[1:])
    if parsed is None:
        sys.stderr.write((USAGE if program != "ssh" else "usage: ssh [OPTION]... HOST COMMAND") + "\n")
        return UNREACHABLE
    pod, container, command = parsed
    request = {"pod": pod, "container": container, "command": command, "secret": os.environ.get(SECRET, "")}
    try:
        answer = call(os.environ.get(VARIABLE, ""), request)
    except OSError as error:
        answer = {"error": f"the run does not answer at {os.environ.get(VARIABLE)}: {error}"}
    if "error" in answer:
        if words[1:2] == ["wait"] and NOT_RUNNING not in answer["error"]:
            return 0  # the command that follows will say what is wrong
        sys.stderr.write(f"{program} {pod}: {answer['error']}\n")
        return UNREACHABLE
    return int(answer["code"])


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""Stands for the program docker: each container is a process of this machine, and a folder below $FAKE_DOCKER.

An image is known if $FAKE_DOCKER/images has a file of its name, with / as _. The engine does not answer while there is
a file `stopped`, and hangs at the commands that a file `hangs` names. The words of all calls are in the file `calls`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

HOME = Path(os.environ.get("FAKE_DOCKER", ""))
#: The options that have no value.
FLAGS = ("--detach", "--rm", "--force", "--volumes", "--all", "--quiet", "--follow")
SHORT = 0.02


def fail(text: str) -> NoReturn:
    sys.stderr.write(f"Error response from daemon: {text}\n")
    sys.exit(1)


def split(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the options with their values, and the other words."""
    options: dict[str, list[str]] = {}
    while words and words[0].startswith("-"):
        name, *words = words
        value = "" if name in FLAGS else words.pop(0)
        options.setdefault(name, []).append(value)
    return options, words


def create(options: dict[str, list[str]], image: str, words: list[str]) -> Path:
    folder = HOME / "containers" / options["--name"][0]
    folder.mkdir(parents=True)
    program = [*options.get("--entrypoint", ()), *words] or ["echo", "from the image"]
    labels = options.get("--label", [])
    lines = [line for file in options.get("--env-file", ()) for line in Path(file).read_text().splitlines()]
    env = dict(line.split("=", 1) for line in lines) | {name: os.environ[name] for name in options.get("--env", ())}
    (folder / "spec").write_text(json.dumps({"program": program, "labels": labels, "env": env, "image": image}))
    return folder


def keep(folder: Path) -> None:
    """Run a container, and write its exit code."""
    spec = json.loads((folder / "spec").read_text())
    with (folder / "log").open("wb") as log:
        environment = {"PATH": os.environ["PATH"], **spec["env"]}
        program = subprocess.Popen(spec["program"], stdout=log, stderr=log, env=environment, start_new_session=True)
    (folder / "pid").write_text(str(program.pid))
    code = program.wait()
    (folder / "code.new").write_text(str(code if code >= 0 else 128 - code))
    (folder / "code.new").rename(folder / "code")


def kill(name: str, number: int) -> None:
    folder = HOME / "containers" / name
    if not (folder / "pid").exists() or (folder / "code").exists():
        fail(f"Cannot kill container: {name}: is not running")
    os.kill(int((folder / "pid").read_text()), number)


def sent(folder: Path, since: str) -> int:
    """Return how much of the log of a container was sent before a time."""
    if not since or not (folder / "sent").exists():
        return 0
    lines = (line.split() for line in (folder / "sent").read_text().splitlines())
    return max(
        (int(end) for time, end in lines if datetime.fromisoformat(time) <= datetime.fromisoformat(since)), default=0
    )


def follow(folder: Path, since: str = "") -> None:
    with (folder / "log").open("rb") as log:
        log.seek(sent(folder, since))
        while True:
            over = (folder / "code").exists() or not folder.exists()  # ended, or removed
            if content := log.read():
                with contextlib.suppress(FileNotFoundError), (folder / "sent").open("a") as times:
                    times.write(f"{datetime.now(UTC).isoformat()} {log.tell()}\n")
                sys.stdout.buffer.write(content)
                sys.stdout.flush()
            if over:
                return
            time.sleep(SHORT)


def labels(folder: Path) -> list[str]:
    return json.loads((folder / "spec").read_text())["labels"]


def labelled(kind: str, filters: list[str]) -> list[str]:
    folders = sorted((HOME / kind).glob("*")) if (HOME / kind).exists() else []
    wanted = {text.removeprefix("label=") for text in filters}
    return [folder.name for folder in folders if wanted <= set(labels(folder))]


def network(words: list[str]) -> None:
    options, names = split(words[1:])
    if words[0] == "ls":
        print("\n".join(labelled("networks", options["--filter"])))
    elif words[0] == "rm":
        shutil.rmtree(HOME / "networks" / names[0], ignore_errors=True)
    elif (HOME / "taken").exists() and options["--subnet"][0] in (HOME / "taken").read_text():
        fail("Pool overlaps with other one on this address space")
    else:
        (HOME / "networks" / names[0]).mkdir(parents=True)
        (HOME / "networks" / names[0] / "spec").write_text(json.dumps({"labels": options["--label"]}))


def remove(names: list[str], *, force: bool) -> None:
    for name in names:
        folder = HOME / "containers" / name
        if not force and (folder / "pid").exists() and not (folder / "code").exists():
            fail(f"cannot remove container {name}: container is running")
        if (folder / "pid").exists() and not (folder / "code").exists():
            os.killpg(int((folder / "pid").read_text()), signal.SIGKILL)
            while not (folder / "code").exists():
                time.sleep(SHORT)
        shutil.rmtree(folder, ignore_errors=True)


def begin(name: str) -> None:
    """Start a container in a process that stays."""
    folder = HOME / "containers" / name
    program = json.loads((folder / "spec").read_text())["program"]
    if not shutil.which(program[0]):
        fail(f'failed to create shim task: exec: "{program[0]}": executable file not found in $PATH: unknown')
    nowhere = subprocess.DEVNULL
    words = [sys.executable, "-P", "-S", __file__, "keep", name]
    subprocess.Popen(words, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
    while not (folder / "pid").exists():
        time.sleep(SHORT)


def known(image: str) -> bool:
    return (HOME / "images" / image.replace("/", "_")).exists()


def wait(folder: Path) -> None:
    while not (folder / "code").exists():
        if not folder.exists():
            fail(f"No such container: {folder.name}")
        time.sleep(SHORT)
    print((folder / "code").read_text())


def state(folder: Path) -> str:
    if not folder.exists():
        fail(f"No such container: {folder.name}")
    if not (folder / "code").exists():
        return json.dumps({"Running": True, "ExitCode": 0, "FinishedAt": "0001-01-01T00:00:00Z", "OOMKilled": False})
    ended = datetime.fromtimestamp((folder / "code").stat().st_mtime, UTC).isoformat()
    code, killed = int((folder / "code").read_text()), (folder / "oom").exists()
    return json.dumps({"Running": False, "ExitCode": code, "FinishedAt": ended, "OOMKilled": killed})


def listed(name: str, form: str) -> str:
    """Return the line of a container in a list."""
    state = "Exited" if (HOME / "containers" / name / "code").exists() else "Up 1 second"
    return f"{name} {state}" if "{{.Status}}" in form else name


def inspect(name: str, wanted: str) -> str:
    folder = HOME / "containers" / name
    if not folder.exists():
        fail(f"No such container: {name}")
    if "trainshed.run" not in wanted:
        return state(folder)
    return "".join(f"/{name} {text.partition('=')[2]}" for text in labels(folder) if text.startswith("trainshed.run="))


def run(options: dict[str, list[str]], words: list[str]) -> None:
    create(options, words[0], words[1:])
    begin(options["--name"][0])


def container(words: list[str]) -> None:
    options, names = split(words[1:])
    folder = HOME / "containers" / (names[0] if names else "none")
    verbs = {
        "create": lambda: create(options, names[0], names[1:]),
        "start": lambda: begin(names[0]),
        "keep": lambda: keep(folder),
        "logs": lambda: follow(folder, options.get("--since", [""])[0]),
        "wait": lambda: wait(folder),
        "inspect": lambda: print("\n".join(inspect(name, options["--format"][0]) for name in names)),
        "kill": lambda: kill(names[0], int(options["--signal"][0])),
        "pause": lambda: kill(names[0], signal.SIGSTOP),
        "unpause": lambda: kill(names[0], signal.SIGCONT),
        "ps": lambda: print(
            *(listed(name, options.get("--format", [""])[0]) for name in labelled("containers", options["--filter"])),
            sep="\n",
        ),
        "rm": lambda: remove(names, force="--force" in options),
        "run": lambda: run(options, names),
    }
    verbs[words[0]]()


def main(words: list[str]) -> None:
    with (HOME / "calls").open("a") as calls:
        calls.write(json.dumps(words) + "\n")
    if (HOME / "stopped").exists():
        sys.stderr.write("Cannot connect to the Docker daemon at unix:///fake.sock. Is the docker daemon running?\n")
        sys.exit(1)
    while (HOME / "hangs").exists() and words[0] in (HOME / "hangs").read_text().split():
        time.sleep(0.2)
    match words[:2]:
        case ["version", *_]:
            print("99.0")
        case ["image", "inspect"]:
            if not known(words[-1]):
                fail(f"No such image: {words[-1]}")
        case ["pull", *_] if words[-1] == "docker.io/library/slow":
            (HOME / "pulling").write_text(str(os.getpid()))
            while not (HOME / "images" / "slow").exists():
                time.sleep(0.05)
        case ["pull", *_]:
            fail("Get https://registry.example.com/v2/: no such host")
        case ["network", *_]:
            network(words[1:])
        case _:
            container(words)


if __name__ == "__main__":
    main(sys.argv[1:])

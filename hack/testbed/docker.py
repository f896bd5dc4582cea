"""The docker engine under the cluster: the one that answers, or else one that is installed and started here."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .debian import ensure, search_path
from .places import HERE, cache, state
from .processes import Process
from .restricted_runc import available
from .steps import StepFailed, run, step

#: Networks of an engine that is started here: in 198.18.0.0/15, which is reserved for test benches and never routed.
BRIDGE, NETWORKS = "198.18.64.1/24", "base=198.18.80.0/20,size=24"
ADVICE = """A docker engine is needed for the cluster, and none answers.
Try: install docker (https://docs.docker.com/engine/install) and start it; `docker info` must work for this user"""


def environment() -> dict[str, str]:
    """The environment in which docker and kind find the engine."""
    own = {"DOCKER_HOST": f"unix://{_socket()}"} if started_here() else {}
    return os.environ | {"PATH": search_path(), "DOCKER_BUILDKIT": "0" if own else "1"} | own


def started_here() -> bool:
    """Return whether `start` has started the engine, so that all its containers belong to the test bed."""
    return bool(_process().pid)


def answers() -> bool:
    """Return whether an engine answers."""
    if not shutil.which("docker"):
        return False
    command = ["docker", "info", "--format", "{{.ServerVersion}}"]
    found = subprocess.run(command, check=False, capture_output=True, timeout=60, env=environment())
    return found.returncode == 0


def start() -> None:
    """Start an engine unless one answers; raises StepFailed with instructions if that is impossible.

    Where docker is missing and this is root on Debian or Ubuntu, it is installed. Without a systemd that would start
    it, the test bed starts the engine itself, and `stop` ends it.
    """
    if answers():
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise StepFailed(ADVICE)
    ensure("dockerd", "ip")
    if Path("/run/systemd/system").is_dir():
        run(["systemctl", "start", "docker"], state() / "docker.log", ADVICE)
    else:
        with step("starting a docker engine"):
            _process().start(_command(), env={"PATH": search_path()})
            _process().wait(answers, 60)


def stop() -> None:
    """End the engine if it was started here, with its networks; the images that it keeps stay in the cache."""
    if not started_here():
        return
    subprocess.run(["docker", "network", "prune", "--force"], check=False, capture_output=True, env=environment())
    _process().stop(patience=30)
    subprocess.run(
        ["ip", "link", "delete", "docker0"], check=False, capture_output=True, env=os.environ | {"PATH": search_path()}
    )
    shutil.rmtree(state() / "docker", ignore_errors=True)


def restricted() -> bool:
    """Return whether root lacks capabilities on this machine, as in some virtual machines and containers."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    return available() != (1 << (last + 1)) - 1


def docker(*words: object) -> None:
    """Run a docker command that must work."""
    run(["docker", *(str(word) for word in words)], state() / "docker.log", env=environment())


def has_image(name: str) -> bool:
    """Return whether the engine has an image of this name."""
    command = ["docker", "image", "inspect", name]
    return subprocess.run(command, check=False, capture_output=True, env=environment()).returncode == 0


def can_have(name: str) -> bool:
    """Return whether the engine has an image, or has pulled it now."""
    if has_image(name):
        return True
    return subprocess.run(["docker", "pull", name], check=False, capture_output=True, env=environment()).returncode == 0


def _process() -> Process:
    return Process("dockerd", state() / "docker")


def _socket() -> Path:
    return state() / "docker" / "docker.sock"


def _command() -> list[str | Path]:
    home, data = state() / "docker", cache() / "docker"
    command: list[str | Path] = ["dockerd", f"--host=unix://{_socket()}", f"--data-root={data}"]
    command += [f"--exec-root={home / 'exec'}", f"--pidfile={home / 'engine.pid'}"]
    command += [f"--bip={BRIDGE}", f"--default-address-pool={NETWORKS}"]
    if restricted():
        command += [f"--add-runtime=restricted={HERE / 'restricted_runc.py'}", "--default-runtime=restricted"]
    return command

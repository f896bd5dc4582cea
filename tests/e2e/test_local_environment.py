"""Containers learn the same under `trainshed run` as from a kubelet: variables, arguments, and files with their modes.

The same pods run in the test bed's cluster and on this machine. Only this may differ, and is checked by itself:
- addresses, the pod's uid and the node's name, and a limit that is what the node has (names with OF_NODE or of-node);
- the mode of Secrets that do not set one: 0600 for replicas that are processes, which run as their user;
- the kubelet's own links in a volume (names that begin with two dots), and the two annotations by which it knows
  when and from which it got the pod.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
import yaml

from support.local_runs import SOON, permitted
from testbed import docker, images

from .engine_images import loaded

FILE = Path(__file__).with_name("environment.yaml")
RUNTIMES = ("processes", "namespaces", "docker")
MARK = "got: "
#: Prints, as one line, what a container got: arguments such as a=/b name the folders.
TELL = f"""import json, os, re, sys
if 'WRITE' in os.environ: open(os.environ['WRITE'], 'w').write('seen')
got = {{'args': [word for word in sys.argv[1:] if '=/' not in word]}}
got['env'] = {{name: value for name, value in os.environ.items() if re.search(r'\\bT_', name)}}
for name, top in (word.split('=') for word in sys.argv[1:] if '=/' in word):
    got[name] = {{}}
    for folder, below, files in os.walk(top, followlinks=True):
        below[:] = [item for item in below if not item.startswith('..')]
        for path in (os.path.join(folder, item) for item in files if not item.startswith('..')):
            got[name][path[len(top) + 1:]] = [oct(os.stat(path).st_mode & 0o7777), repr(open(path, 'rb').read())]
print({MARK!r} + json.dumps([os.environ['CONTAINER'], got]))
"""
#: Files of Secrets that set no mode.
SECRETS = re.compile(r"(all-keys|none-either)/|plain/(T_TOKEN|T_USER|both|raw)$")

#: The kubelet's own lines in a file of annotations.
KUBELETS = re.compile(r'kubernetes\.io/config\.(seen|source)=".*?"(\\n|$)')
#: The variables and files that may differ, and what is the same about them.
DIFFERENT: dict[str, Callable[[str], object]] = {
    r"_IPS?$": lambda text: [ip_address(item).version for item in text.split(",")],
    r"/uid$|T_UID$": lambda text: uuid.UUID(text).version,
    r"OF_NODE$|/of-node/": lambda text: int(text) > 0,
    r"T_NODE$": bool,
    r"annotations$": lambda text: KUBELETS.sub("", text),
}


@pytest.fixture(autouse=True, scope="session")
def operator() -> None:
    """No operator is needed, in place of the fixture for the other tests."""


def documents() -> list[dict]:
    """Return the objects, with an image and the command that tells in each container."""
    found = list(yaml.safe_load_all(FILE.read_text()))
    for job in (item for item in found if item["kind"] == "JAXJob"):
        spec = job["spec"]["jaxReplicaSpecs"]["Worker"]["template"]["spec"]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            container |= {"image": images.PYTHON, "command": ["python3", "-c", TELL]}
            name = {"name": "CONTAINER", "value": f"{job['metadata']['name']}/{container['name']}"}
            container["env"] = [*container["env"], name]
    return found


def trainshed(*words: str | Path) -> str:
    """Run a command of trainshed; return its output."""
    command = [sys.executable, "-m", "trainshed", *map(str, words)]
    environment = docker.environment()
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOON * 3, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def received(logs: str, *, own_user: bool = False) -> dict:
    """Return what each container got, with what can be compared in place of what may differ."""
    lines = (line.partition(MARK)[2] for line in logs.splitlines() if MARK in line)
    found = dict(json.loads(line) for line in lines)
    for parts in found.values():
        for part in parts.keys() - {"args"}:
            parts[part] = {key: _comparable(f"{part}/{key}", value, own_user) for key, value in parts[part].items()}
    return found


def _comparable(path: str, value: str | list[str], own_user: bool) -> tuple[str, object]:
    """Return the mode of a file, "" for a variable, and the content."""
    mode, text = ("", value) if isinstance(value, str) else (value[0], value[1][2:-1])
    if own_user and SECRETS.match(path):
        assert mode == "0o600", path
        mode = "0o644"
    for pattern, comparable in DIFFERENT.items():
        if re.search(pattern, path):
            return mode, comparable(text)
    return mode, text


def differences(name: str, one: dict, other: dict) -> Iterator[str]:
    for key in sorted(one.keys() | other.keys()):
        if isinstance(one.get(key), dict) and isinstance(other.get(key), dict):
            yield from differences(f"{name} {key}", one[key], other[key])
        elif one.get(key) != other.get(key):
            yield f"{name} {key}: {one.get(key)!r}, here {other.get(key)!r}"


def test_containers_learn_the_same_as_from_a_kubelet(kubectl, tmp_path, subtests):
    file, pods = tmp_path / "jobs.yaml", tmp_path / "pods.yaml"
    file.write_text(yaml.safe_dump_all(documents()))
    namespace = kubectl.command[-1]
    pods.write_text(trainshed("render", "-f", file, "-n", namespace))
    others = tmp_path / "others.yaml"
    others.write_text(yaml.safe_dump_all(item for item in documents() if item["kind"] != "JAXJob"))
    kubectl("create", "-f", str(others), "-f", str(pods))
    names = [item["metadata"]["name"] for item in yaml.safe_load_all(pods.read_text()) if item["kind"] == "Pod"]
    for name in names:
        kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s", timeout=130)
    expected = received("\n".join(kubectl("logs", name, "--all-containers") for name in names))
    assert len(expected) == 5
    for runtime in RUNTIMES:
        with subtests.test(runtime), loaded([images.PYTHON] if runtime == "docker" else [], tmp_path):
            permitted(runtime)
            fixed = ("--runtime", runtime, "--state", tmp_path / runtime, "--output", "json")
            logs = Path(json.loads(trainshed("run", "-f", file, "-n", namespace, *fixed))["logs"])
            here = received("\n".join(path.read_text() for path in logs.rglob("*.log")), own_user=runtime != "docker")
            assert list(differences("", expected, here)) == []

"""Every example ends under `trainshed run` as on a cluster, in containers of its own images."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed import docker, images

from .engine_images import loaded
from .example import FOLDER, KILL, Expectation, check_words, expectations

pytestmark = pytest.mark.long
#: Horovod takes ten minutes to compile, and the elastic example needs a pod that is deleted at a line of another one.
LEFT_OUT = ("mpi/horovod", "mpi/horovod-elastic")
EXAMPLES = {
    f"{path.parent.name}/{path.stem}": path
    for path in sorted(FOLDER.glob("*/*.yaml"))
    if f"{path.parent.name}/{path.stem}" not in LEFT_OUT
}
EXAMPLES["mpi/v2beta1"] = FOLDER / "mpi" / "v2beta1" / "allreduce.yaml"
PARTS = sorted({name.partition("/")[0] for name in EXAMPLES})


@dataclass(frozen=True)
class LocalLogs:
    """Stands for `pod_logs.Journal`: the logs of a local run."""

    folder: Path

    def of(self, pod: str) -> str:
        """Return the output of all pods of this name."""
        path = self.folder / f"{pod}.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture(autouse=True, scope="session")
def operator() -> None:
    """No operator is needed, in place of the fixture for the other tests."""


@pytest.fixture(scope="module", params=PARTS)
def part(request, tmp_path_factory) -> Iterator[str]:
    """A folder of examples whose images the engine has or can pull; those loaded here are removed afterwards."""
    own = (path for name, path in EXAMPLES.items() if name.startswith(f"{request.param}/"))
    wanted = images.named("\n".join(path.read_text() for path in own))
    with loaded(wanted, tmp_path_factory.mktemp("images")):
        yield request.param


@pytest.mark.timeout(3600)
def test_the_examples_of_a_kind_end_as_on_a_cluster(part: str, tmp_path: Path) -> None:
    for name, path in EXAMPLES.items():
        if name.startswith(f"{part}/"):
            ends_as_it_says(path, tmp_path / name)


def failures(jobs: list[Expectation]) -> Iterator[str]:
    """Yield the options that kill the pods which the tests on a cluster delete."""
    for job in jobs:
        if kill := KILL.fullmatch(job.says.get("kill", "")):
            yield from ("--fail", f"{job.name}-{kill['victim']}@{kill['pattern']}")


def ends_as_it_says(path: Path, state: Path) -> None:
    """Run an example, and compare its end with the one that is written in it."""
    jobs = expectations(path)
    fixed = ("--runtime", "docker", "--output", "json", "--state", str(state), *failures(jobs))
    done = subprocess.run(
        [sys.executable, "-m", "trainshed", "run", "-f", str(path), *fixed],
        check=False,
        capture_output=True,
        text=True,
        timeout=sum(job.within for job in jobs),
        env=docker.environment() | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    ends = {job["name"]: job for job in found["jobs"]}
    for job in jobs:
        assert ends[job.name]["state"] == job.says["ends"], done.stderr
        if "restarts" in job.says and "kill" not in job.says:
            assert ends[job.name]["status"].get("restarts", 0) == int(job.says["restarts"]), done.stderr
        check_words(job, LocalLogs(Path(found["logs"])))


#: Examples with checkpoints, and faults that they survive. Of the others with checkpoints `restart` strikes itself, and
#: `parameter-server` prints rounds, which are no steps.
DRILLED = {"pytorch/survivor": ("suspend", "stall", "resize"), "pytorch/torchrun-elastic": ("kill-all", "evict")}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", DRILLED)
def test_an_example_with_checkpoints_survives_its_drill(name: str, tmp_path: Path) -> None:
    script = tmp_path / "faults.yaml"
    script.write_text(json.dumps({"faults": [{"fault": fault} for fault in DRILLED[name]]}))
    fixed = ("--runtime", "docker", "--state", str(tmp_path / "state"), "--script", str(script))
    with loaded(images.named(EXAMPLES[name].read_text()), tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "trainshed", "drill", "-f", str(EXAMPLES[name]), *fixed],
            check=False,
            capture_output=True,
            text=True,
            env=docker.environment() | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        )
    assert done.returncode == 0, done.stdout + done.stderr

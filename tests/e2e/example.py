"""Runs an example on a node with real containers, until the end that is written in it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from support import UserClient

from .pod_logs import Journal

FOLDER = Path(__file__).parents[2] / "examples"
SAYS = "example.trainshed.dev/"
#: `worker-1 after step 5`, or with another pod's log: `worker-1 after launcher: step 5`.
KILL = re.compile(r"(?P<victim>\S+) after (?:(?P<witness>[a-z]+(?:-\d+)?): )?(?P<pattern>.+)")


@dataclass(frozen=True)
class Expectation:
    """The expected end of an example's job, from its manifest."""

    kind: str
    name: str
    says: dict[str, str]

    @property
    def within(self) -> float:
        """Seconds it may take."""
        return float(self.says["within"].removesuffix("s"))

    def lines(self, what: str) -> list[tuple[list[str], str]]:
        """Lines of the form `pods: pattern`."""
        found = (line.partition(": ") for line in self.says.get(what, "").splitlines() if line.strip())
        return [([f"{self.name}-{pod}" for pod in pods.split()], pattern) for pods, _, pattern in found]


def expectations(path: Path) -> list[Expectation]:
    """The jobs in an example."""
    documents = yaml.safe_load_all(path.read_text())
    objects = [item for document in documents for item in document.get("items", [document])]
    jobs = [item for item in objects if item["apiVersion"].startswith("kubeflow.org/")]
    return [
        Expectation(
            job["kind"],
            job["metadata"]["name"],
            {key.removeprefix(SAYS): value for key, value in job["metadata"].get("annotations", {}).items()},
        )
        for job in jobs
    ]


def ends_as_it_says(path: Path, kubectl: Callable[..., str], user: UserClient, folder: Path) -> list[Expectation]:
    """Apply an example and follow it to its end; its jobs. Logs are kept in `folder`."""
    wanted = expectations(path)
    assert wanted, f"{path} holds no job"
    journal = Journal(kubectl, folder)
    try:
        kubectl("apply", "-f", str(path))
        began = time.monotonic()
        for job in wanted:
            disturb(job, kubectl, journal)
        for job in wanted:
            wait_for_end(job, began, user, journal)
    finally:
        journal.finish()
    for job in wanted:
        check_words(job, journal)
    return wanted


def disturb(job: Expectation, kubectl: Callable[..., str], journal: Journal) -> None:
    """`kill: worker-2 after a pattern`: delete that pod by hand once its log, or another pod's, has it."""
    if "kill" not in job.says:
        return
    kill = KILL.fullmatch(job.says["kill"])
    assert kill, f"not POD after REGEX: {job.says['kill']}"
    pod = f"{job.name}-{kill['victim']}"
    witness = f"{job.name}-{kill['witness']}" if kill["witness"] else pod
    end = time.monotonic() + job.within
    while not re.search(kill["pattern"], journal.of(witness), re.MULTILINE):
        assert time.monotonic() < end, f"{witness} never said {kill['pattern']!r}:\n{story(job, journal)}"
        time.sleep(0.5)
        journal.read()
    kubectl("delete", "pod", pod, "--wait=false")


def wait_for_end(job: Expectation, began: float, user: UserClient, journal: Journal) -> None:
    """The condition that the example ends with, in time."""
    ends = job.says["ends"]
    while time.monotonic() < began + job.within:
        journal.read()
        conditions = user.conditions(job.kind, job.name)
        over = {kind for kind in ("Succeeded", "Failed") if conditions.get(kind, {}).get("status") == "True"}
        if over:
            assert over == {ends}, story(job, journal)
            break
        time.sleep(0.5)
    else:
        raise AssertionError(f"not over within {job.within:.0f} s\n{story(job, journal)}")
    if "restarts" in job.says:
        restarts = user.job(job.kind, job.name)["status"].get("restarts", 0)
        assert restarts == int(job.says["restarts"]), story(job, journal)


def check_words(job: Expectation, journal: Journal) -> None:
    """Check texts that the pods' logs must contain, and texts that must be equal in several of them."""
    for pods, pattern in job.lines("logs"):
        for pod in pods:
            log = journal.of(pod)
            assert re.search(pattern, log, re.MULTILINE), f"{pod} does not say {pattern!r}:\n{log[-3000:]}"
    for pods, pattern in job.lines("agree"):
        found = {pod: re.findall(pattern, journal.of(pod), re.MULTILINE)[-1:] for pod in pods}
        assert all(found.values()), found
        assert len({tuple(words) for words in found.values()}) == 1, found


def story(job: Expectation, journal: Journal) -> str:
    """Return the facts that a person would read after a failure."""
    description = journal.kubectl("describe", job.kind.lower(), job.name)
    logs = [f"--- {path.stem}\n{path.read_text()[-1500:]}" for path in sorted(journal.folder.glob("*.log"))]
    return "\n".join([description, journal.kubectl("get", "pods", "-o", "wide"), *logs])

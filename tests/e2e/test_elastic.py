"""An elastic job that is scaled while it trains: each group that forms goes on where the last one was."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from support import UserClient
from support.pods import env, names

from .pod_logs import Journal

EXAMPLE = Path(__file__).parents[2] / "examples" / "pytorch" / "torchrun-elastic.yaml"
NAME = "torchrun-elastic"
HOST = f"{NAME}-worker-0"
#: The number of epochs of the last group, and the seconds for a group to form: torch starts slowly.
LAST, PATIENCE = 10, 300
#: The example trains until a file exists; each new group checks for the file again.
OWN_END = "range(first, EPOCHS + 1)"
END_BY_FILE = f'range(first, first + {LAST} if (FOLDER / "enough").exists() else 10**6)'
BEGINS = re.compile(r"^rank \d in a group of (\d) begins with epoch (\d+)$", re.MULTILINE)
EPOCH = re.compile(r"^epoch (\d+): loss [\d.]+, group of (\d)$", re.MULTILINE)


@pytest.fixture
def journal(kubectl: Callable[..., str], tmp_path: Path) -> Iterator[Journal]:
    """The output of the pods."""
    journal = Journal(kubectl, tmp_path)
    yield journal
    journal.finish()


def an_open_end(folder: Path, workers: int) -> Path:
    """Return the example with this number of workers, and without an end of its own."""
    config, job = yaml.safe_load_all(EXAMPLE.read_text())
    ((script, text),) = config["data"].items()
    assert OWN_END in text
    config["data"][script] = text.replace(OWN_END, END_BY_FILE)
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = workers
    path = folder / EXAMPLE.name
    path.write_text(yaml.safe_dump_all((config, job)))
    return path


def trained(journal: Journal) -> tuple[int, int]:
    """The last epoch that was trained, and in a group of how many."""
    epoch, group = (EPOCH.findall(journal.of(HOST)) or [("0", "0")])[-1]
    return int(epoch), int(group)


def wait(question: Callable[[], object], journal: Journal) -> None:
    """Return once the answer is yes; meanwhile the journal is kept."""
    end = time.monotonic() + PATIENCE
    while not question():
        assert time.monotonic() < end, story(journal)
        time.sleep(0.5)
        journal.read()


def story(journal: Journal) -> str:
    """Return the facts that a person would read after a failure."""
    logs = [f"--- {path.stem}\n{path.read_text()[-2000:]}" for path in sorted(journal.folder.glob("*.log"))]
    return "\n".join([journal.kubectl("describe", "pytorchjob", NAME), *logs])


def scale(count: int, user: UserClient, journal: Journal) -> float:
    """Scale, wait until this number of workers train together, and return the seconds."""
    began = time.monotonic()
    journal.kubectl("scale", "pytorchjob", NAME, f"--replicas={count}")
    members = [f"{NAME}-worker-{index}" for index in range(count)]
    wait(lambda: trained(journal)[1] == count, journal)
    took = time.monotonic() - began
    wait(lambda: names(user.pods()) == names(user.core("services")) == members, journal)
    return took


@pytest.mark.long
def test_a_running_elastic_job_grows_and_shrinks(user: UserClient, journal: Journal, tmp_path: Path) -> None:
    journal.kubectl("apply", "-f", str(an_open_end(tmp_path, 2)))
    wait(lambda: trained(journal)[1] == 2, journal)
    host = user.pod(HOST)["metadata"]["uid"]
    took = [scale(3, user, journal), scale(1, user, journal)]
    journal.kubectl("exec", HOST, "--", "sh", "-c", "touch $CHECKPOINT_DIR/enough")
    took.append(scale(2, user, journal))
    assert {env(pod)["PET_NNODES"] for pod in user.pods()} == {"1:3"}
    assert user.pod(HOST)["metadata"]["uid"] == host, "who was never in the way was replaced"
    wait(lambda: user.state("PyTorchJob", NAME) in ("Succeeded", "Failed"), journal)
    journal.finish()
    print("seconds until 3, 1 and 2 trained:", *(f"{seconds:.0f}" for seconds in took))
    check_history(journal)
    check_status(user, journal)


def check_history(journal: Journal) -> None:
    """Four groups; each has begun with the epoch after the last one that was saved."""
    begun = [(int(size), int(first)) for size, first in BEGINS.findall(journal.of(HOST))]
    firsts = [first for _, first in begun]
    print("groups began with epochs", firsts)
    assert [size for size, _ in begun] == [2, 3, 1, 2]
    assert firsts[0] == 1
    assert firsts == sorted(set(firsts))
    done = [int(epoch) for epoch, _ in EPOCH.findall(journal.of(HOST))]
    assert set(done) == set(range(1, firsts[-1] + LAST)), "epochs were left out"
    assert len(done) <= len(set(done)) + 3, "more was trained again than what was under way"


def check_status(user: UserClient, journal: Journal) -> None:
    """Check that no failure was counted, whatever code torchrun has exited with."""
    status = user.job("PyTorchJob", NAME)["status"]
    assert user.state("PyTorchJob", NAME) == "Succeeded", story(journal)
    assert status.get("restarts", 0) == 0
    assert "failure" not in status, status["failure"]
    wait(lambda: "PyTorchJobSucceeded" in {reason for _, reason, _ in user.events(NAME)}, journal)
    events = user.events(NAME)
    assert [event for event in events if event[0] == "Warning"] == []
    assert {reason for _, reason, _ in events} >= {"SuccessfulCreatePod", "SuccessfulDeletePod"}

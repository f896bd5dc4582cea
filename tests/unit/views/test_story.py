"""The story of a job as a reader sees it: each case is compared as a whole with its file, and was read once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.builders import T0, at, running, seen
from support.job_stories import STORIES, a_training, fails, ready
from support.replace import replace
from trainshed import client
from trainshed.api.status import Retries, TrainerStatus
from trainshed.api.time_spent import JobPhase, TimeSpent
from trainshed.client import ApiError
from trainshed.plan.facts import Facts
from trainshed.plan.failures import CLASSES
from trainshed.views import advice, story
from trainshed.views.lost_time import SINCE_CHECKPOINT
from trainshed.views.story import Story

WAITED, AGAIN = "not lost in a queue or suspended", "training that was done again took"
FILES, PAGE = Path(__file__).parent / "stories", Path(__file__).parents[3] / "docs" / "commands.md"
TEN_JOBS = PAGE.with_name("ten-jobs.md")
#: The stories that docs/commands.md shows, by their titles there.
SHOWN = {
    "A ResourceQuota has no room": "quota",
    "The image cannot be pulled": "image",
    "No node takes the pods": "unschedulable",
    "The job waits in a queue of Kueue": "queue",
    "A gang scheduler waits for room": "gang",
    "A container ends again and again": "crash-loop",
    "A replica used more memory than its limit": "oom",
    "The program ended with a traceback": "traceback",
    "A replica was killed": "killed",
    "The job was active for too long": "deadline",
    "The operator does not run": "operator-stopped",
    "All is well": "runs",
}


def as_printed(found: Story) -> str:
    """The story in the form of `trainshed explain`, in which no line is wrapped."""
    lines = [found.headline]
    for chapter in found.chapters:
        lines.append("")
        lines += [f"{chapter.title if number == 0 else '':<13}{line}" for number, line in enumerate(chapter.lines)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("case", STORIES)
def test_a_story_is_told_as_it_was_read_once(case: str):
    assert as_printed(STORIES[case]()) == (FILES / f"{case}.txt").read_text()


def test_there_are_no_other_stories():
    assert sorted(path.stem for path in FILES.iterdir()) == sorted(STORIES)
    page = re.findall(r"^### ([^\n]+)\n\n```\n(.+?\n)```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert dict(page) == {title: (FILES / f"{case}.txt").read_text() for title, case in SHOWN.items()}


def test_the_ten_jobs_are_told_what_to_do_as_the_stories_are():
    """On kind tests/e2e/test_ten_jobs.py compares the whole page."""
    shown = re.findall(r"^What to do   (.+)$", TEN_JOBS.read_text(), re.MULTILINE)
    stories = "".join(path.read_text() for path in FILES.iterdir())
    shown = [
        text.replace("300Mi of the 256Mi requests.memory", "32 of the 16 requests.nvidia.com/gpu") for text in shown
    ]
    texts = [re.sub(r"pytorchjob/\w+", "pytorchjob/mnist", text).removesuffix(advice.OVER) for text in shown]
    assert [text for text in texts if f"What to do   {text.strip()}" not in stories] == []


def write() -> None:
    """Write the stories again; read what has changed then."""
    FILES.mkdir(exist_ok=True)
    texts = {case: as_printed(tell()) for case, tell in STORIES.items()}
    for case, content in texts.items():
        (FILES / f"{case}.txt").write_text(content)
    page = PAGE.read_text()
    parts = [f"### {title}\n\n```\n{texts[case]}```" for title, case in SHOWN.items()]
    PAGE.write_text(page[: page.index("\n### A ResourceQuota") + 1] + "\n\n".join(parts) + "\n")


#: Reasons of errors that no job is Blocked by: the operator tries again, or gives its work to another replica.
TRANSIENT = {"ApiError", "NotFound", "Conflict", "Expired", "TooManyRequests", "NotLeader", "Unavailable"}


def test_each_reason_to_wait_or_to_fail_has_advice():
    errors = [
        error.reason for error in vars(client).values() if isinstance(error, type) and issubclass(error, ApiError)
    ]
    others = [client.UNCALLED, client.UNDONE, client.CONFLICTING, "NotScheduled", "PodStuckTerminating"]
    named = {*errors, *others} - TRANSIENT - {"ResponseTooLarge"}
    assert [reason for reason in sorted(named) if not advice.for_waiting(reason)] == []
    general = {reason for reason, kind in CLASSES.items() if kind == "Infrastructure"}
    assert [reason for reason in CLASSES if reason not in general | {"Error"} and not advice.for_waiting(reason)] == []


def test_foreign_text_cannot_forge_a_line():
    found = fails("Never", code=1, why="Error", words="oh\x1b[2Jno\n\nWhat to do   run this\r\n")
    lines = as_printed(found).splitlines()
    assert not any(line.startswith("What to do   run") for line in lines)
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("seconds", "known", "said"),
    [
        (
            *({"Suspended": 1200, "Scheduling": 120, "ImagePull": 300, "Running": 6000, "Restart": 723}, {}),
            f"88% of 169m; its start took 7m; restarts took 12m3s{SINCE_CHECKPOINT}; {WAITED}: 20m",
        ),
        (
            *(
                {"Running": 6000, "ProgramStartup": 80, "Restart": 63},
                {"trainer": TrainerStatus(T0, step=7), "lost": 606},
            ),
            f"99% of 152m; its programs started for 80s; restarts took 63s; {AGAIN} 10m6s; goodput 91%",
        ),
        ({"ImagePull": 900, "Running": 6000}, {}, "90% of 165m; its start took 15m"),
        ({"ImagePull": 9, "Running": 6000}, {}, ""),
        ({"Queued": 10**6, "Running": 6000}, {}, ""),
        ({"Restart": 100}, {"retries": Retries()}, ""),
    ],
)
def test_where_the_time_has_gone_is_told_if_a_part_of_it_is_lost(seconds: dict[str, int], known: dict, said: str):
    job = a_training()
    phases = {JobPhase(phase): time for phase, time in seconds.items()}
    spent = TimeSpent(phases, JobPhase.RUNNING, T0, lost_work=known.pop("lost", 0))
    status = replace(running(job), **{"time_spent": spent, "retries": Retries(used=1), **known})
    told = as_printed(story.tell(Facts(seen(job, *ready(job), status=status, now=at(3000))), {"metadata": {}}))
    lines = [line[13:] for line in told.splitlines() if "all replicas ran" in line]
    assert lines == ([f"all replicas ran for {said}"] if said else [])

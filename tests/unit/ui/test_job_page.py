"""The page of one job: each broken job is understood from it, and nothing that others have written gets out of it."""

from __future__ import annotations

import re
from collections import Counter

import msgspec
import pytest

from support.broken_jobs import BROKEN, WELL, lives
from support.builders import at
from support.played_jobs import Life, Play, a_document
from trainshed.api import status_codec
from trainshed.ui.model import JobFile, PageFrame, Sample, SeenPod
from trainshed.ui.pages import job, job_yaml, ranks

from .page_text import Page

FRAME = PageFrame(at(0), place="cluster dev")


def page_of(name: str) -> Page:
    play, now = (BROKEN | WELL)[name]()
    return Page(job.page(play.file(now), PageFrame(at(now))))


#: What a reader who knows nothing must find, in this order: what it is, why, and what to do.
UNDERSTOOD = {
    "image-pull": (
        "Blocked",
        "worker-1 on gpu-node-03: image registry.example/train:1 cannot be pulled",
        "master-0 runs the same image, so its name is right: look at gpu-node-03",
    ),
    "quota": ("Blocked", "exceeded quota: gpus", "asks for 32 of the 24 requests.nvidia.com/gpu"),
    "unschedulable-gpu": (
        "Blocked",
        "each Master and Worker fits on gpu-node-01, gpu-node-02, gpu-node-03 and 1 more (4 in total), which are",
        "start by themselves when other jobs end",
    ),
    "crash-loop": ("Blocked", "ValueError: bad batch: label 10 is out of range", "Fix the program: trainshed logs"),
    "oom-killed": ("Failed", "worker-1 on gpu-node-03 was OOMKilled (limit 64Gi)", "Raise resources.limits.memory"),
    "evicted": (
        "Restarting",
        "worker-1 on gpu-node-03 was evicted by the kubelet 29m41s after start: The node was low on resource",
        "Request what the program uses",
    ),
    "stalled": (
        "Stalled",
        "no progress for 20m, noticed 10m ago: no step since step 2940 at 2026-01-01T12:49:40Z",
        "trainshed stacks pytorchjob/mnist -n ml",
    ),
    "suspended-by-kueue": ("Queued", "couldn't assign flavors", "another queue, or a higher priority"),
    "deadline-exceeded": (
        "Failed",
        "active longer than activeDeadlineSeconds: limit 60m",
        "Raise activeDeadlineSeconds",
    ),
    "liveness-probe": ("Failed", "Liveness probe failed: HTTP probe failed with statuscode: 503", "failureThreshold 3"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_job_says_what_it_is_and_why_and_what_to_do_before_what_was_asked_for(name):
    text = page_of(name).text
    places = [text.find(words) for words in (*UNDERSTOOD[name], "Asked for")]
    places += [text.rfind(words) for words in ("Timeline", "Conditions of the job", "In a terminal")]
    assert -1 not in places, text
    assert places == sorted(places)


#: What is above the timeline: the state and why, and the story.
PROSE = re.compile(r'<div class="headline".*?(?=<section class="timeline-section")', re.DOTALL)
#: What may be said again: lines of a log, which are quoted, and each of several failures, at its time.
QUOTED = re.compile(r"<pre.*?</pre>|<dt>History</dt>.*?</dd>", re.DOTALL)


@pytest.mark.parametrize("name", BROKEN | WELL)
def test_no_sentence_stands_twice_on_a_page(name):
    play, now = (BROKEN | WELL)[name]()
    prose = PROSE.search(str(job.page(play.file(now), PageFrame(at(now)))))[0]
    texts = re.sub(r"<[^>]+>", "\n", QUOTED.sub("", prose))
    said = [part.strip(" .") for part in re.split(r"\n|(?<=[.;:]) |, ", texts)]
    again = Counter(part for part in said if len(part.split()) >= 4)
    assert [part for part, times in again.items() if times > 1] == []


def test_the_page_of_a_job_that_trains_too_long_says_which_deadline_is_enough_and_not_what_was_before():
    page = page_of("stopped-too-early")
    assert next(given.get("class") for tag, given in page.elements if tag == "dl") == "causes waiting"
    text = page.text
    first = text.partition("What to do")[0]
    assert "Running" in first
    assert "the job is stopped in 60m, and the training needs about 77m more" in first
    assert "OOMKilled" not in first
    assert '"activeDeadlineSeconds":11400}' in text.partition("What to do")[2]
    assert {"state warning waiting", "limit warns"} <= {given.get("class") for _, given in page.elements}
    assert "▲ in 60m: the job fails, about 17m before its training ends" in text


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("suspended-by-kueue", (False, False, False)),
        ("unschedulable-gpu", (False, False, True)),
        ("liveness-probe", (True, True, True)),
    ],
)
def test_commands_are_offered_only_for_pods_that_there_are(name: str, offered: tuple[bool, ...]):
    commands = page_of(name).text.partition("In a terminal")[2]
    words = ("trainshed logs", "trainshed stacks", "kubectl get pods")
    assert tuple(one in commands for one in words) == offered
    assert ("if it was started with --allow-actions" in commands) == offered[1]  # the page reads stacks only then
    assert "trainshed explain" in commands


def test_a_job_that_was_deleted_has_no_commands():
    play, now = BROKEN["liveness-probe"]()
    found = play.file(now)
    gone = tuple(msgspec.structs.replace(one, removed=at(now)) for one in found.pods)
    deleted = msgspec.structs.replace(found, pods=gone, deleted=at(now))
    assert "In a terminal" not in Page(job.page(deleted, FRAME)).text


@pytest.mark.parametrize("name", [*BROKEN, *WELL])
def test_a_page_has_no_script_and_no_style_of_its_own_and_its_ids_are_its_own(name):
    found = page_of(name)
    names = [given["id"] for _, given in found.elements if "id" in given]
    assert len(names) == len(set(names))
    assert [given for tag, given in found.elements if tag == "script" and not given.get("src")] == []
    assert [given for tag, given in found.elements if tag == "style" or "style" in given] == []


def test_the_page_of_a_queued_job_does_not_say_besides_that_it_is_suspended():
    assert "is suspended." not in page_of("suspended-by-kueue").text.partition("Asked for")[0]


@pytest.mark.parametrize("end", [None, 300])
def test_the_page_of_a_job_that_succeeded_still_says_why_a_restarted_container_ended(end):
    again = Life("worker-1", started=45, runs=((20, 30, 7, "Error"),), message="ValueError: bad batch", ended=end)
    others = (Life(name, started=22, ended=end) for name in ("master-0", "worker-0", "worker-2"))
    text = Page(job.page(Play(a_document(), (again, *others)).file(400), PageFrame(at(400)))).text
    why = "worker-1 on node-a exited with code 7 after 10s: ValueError: bad batch; the kubelet started it again"
    assert ("Succeeded" in text, text.count(why)) == (bool(end), 1)
    assert "12:00:30 exited with code 7, and was restarted by the kubelet" in text


def test_advice_for_a_healthy_job_is_not_highlighted():
    found = page_of("healthy")
    assert "advice" not in {given.get("class") for _, given in found.elements}
    assert "What to do" in found.text


@pytest.mark.parametrize("draw", [job.page, ranks.page, job_yaml.page])
def test_a_job_that_was_deleted_stays_readable_under_a_banner(draw):
    play, now = BROKEN["oom-killed"]()
    file = msgspec.structs.replace(play.file(now), deleted=at(now + 10))
    text = Page(draw(file, PageFrame(at(now + 130)))).text
    assert "This job was deleted 2m ago" in text
    assert "mnist" in text
    assert "gpu-node-03" in text


def test_replicas_of_a_job_that_is_over_were_not_never_created():
    """Their pods may have been deleted before the page was opened."""
    play, now = BROKEN["deadline-exceeded"]()
    text = Page(job.page(msgspec.structs.replace(play.file(now), pods=()), PageFrame(at(now)))).text
    assert (text.count("worker-2 no pod"), "not created" in text) == (1, False)


HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(1)>' onload='x\x1b[31m\u202e\x00</title></svg></pre>"


def hostile() -> JobFile:
    """A job in which all that others write is meant to get out of where it stands."""
    pods = lives(
        Life("worker-1", node=HOSTILE, ended=50, code=1, reason=HOSTILE, message=HOSTILE),
        Life("worker-2", started=None, waits=(HOSTILE, HOSTILE)),
        Life("worker-0", scheduled=None, started=None, unplaced=HOSTILE),
        Life("master-0", ended=50, code=1, pod_reason=(HOSTILE, HOSTILE), disrupted=(49, HOSTILE)),
    )
    file = Play(a_document(annotations={"x": HOSTILE}, labels={"kueue.x-k8s.io/queue-name": HOSTILE}), pods).file(90)
    event = {
        "type": HOSTILE,
        "reason": HOSTILE,
        "message": HOSTILE,
        "involvedObject": {"kind": HOSTILE, "name": HOSTILE},
    }
    samples = tuple(Sample(at(n), n, n, ((HOSTILE, float(n)),)) for n in range(3))
    status = {"ready": HOSTILE, **file.document["status"]}
    metadata = {**file.document["metadata"], "name": HOSTILE, "namespace": HOSTILE}
    document = {**file.document, "metadata": metadata, "status": status}
    return msgspec.structs.replace(file, document=document, events=(event,), samples=samples)


@pytest.mark.parametrize("draw", [job.page, ranks.page, job_yaml.page])
def test_nothing_that_others_have_written_becomes_an_element_or_an_attribute(draw):
    found = Page(draw(hostile(), FRAME))
    assert {tag for tag, _ in found.elements} & {"img", "iframe", "object", "base"} == set()
    assert [
        given
        for tag, given in found.elements
        if tag == "script" and not (given.get("src") or "").startswith("/static/")
    ] == []
    assert [key for _, given in found.elements for key in given if key.startswith("on") or key == "style"] == []
    assert [to for _, given in found.elements if (to := given.get("href")) and not to.startswith(("/", "#", "?"))] == []


@pytest.mark.parametrize("draw", [job.page, ranks.page])
def test_what_others_have_written_has_no_control_characters(draw):
    html = str(draw(hostile(), FRAME))
    assert [mark for mark in ("\x1b", "\u202e", "\x00") if mark in html] == []


def test_a_job_of_a_kind_that_trainshed_does_not_run_has_a_page_too():
    document = {
        "apiVersion": "example.com/v1",
        "kind": "OtherJob",
        "metadata": {"name": "other", "namespace": "ml"},
        "status": "broken",
    }
    file = JobFile(document, Play(a_document()).file(5).status)
    for draw in (job.page, ranks.page, job_yaml.page):
        assert "other" in Page(draw(file, FRAME)).text


def test_documents_are_yaml_without_what_only_the_api_server_reads():
    file = Play(a_document(), lives()).file(60)
    metadata = {**file.document["metadata"], "managedFields": [{"manager": "kubectl"}]}
    text = Page(
        job_yaml.page(msgspec.structs.replace(file, document={**file.document, "metadata": metadata}), FRAME)
    ).text
    assert "kind: PyTorchJob" in text
    assert "name: mnist-worker-2" in text
    assert "managedFields" not in text


def test_many_events_and_long_documents_are_cut():
    file = Play(a_document(annotations={"x": "y" * 2 * job_yaml.MOST})).file(5)
    events = tuple({"reason": f"R{n}", "lastTimestamp": "2026-01-01T12:00:00Z"} for n in range(500))
    file = msgspec.structs.replace(file, events=events)
    assert "and 300 more" in Page(job.page(file, FRAME)).text
    assert len(str(job_yaml.page(file, FRAME))) < job_yaml.MOST + 10_000


def test_of_very_many_pods_no_more_documents_are_written_than_are_shown(monkeypatch: pytest.MonkeyPatch):
    play, now = WELL["healthy"]()
    file, written = play.file(now), []
    write = job_yaml.writer.write
    monkeypatch.setattr(job_yaml, "MOST", 20_000)
    monkeypatch.setattr(job_yaml.writer, "write", lambda found: written.append(found) or write(found))
    pod = SeenPod({"metadata": {"name": "x" * 1_000}})
    text = Page(job_yaml.page(msgspec.structs.replace(file, pods=(pod,) * 10_000), PageFrame(at(now)))).text
    assert len(written) < 30
    assert f"and {10_001 - len(written)} more pods" in text


def test_ranks_can_be_sorted_by_node_and_those_of_a_node_are_together():
    play, now = BROKEN["oom-killed"]()
    found = Page(ranks.page(play.file(now), PageFrame(at(now)), {"sort": "node"})).text
    assert "gpu-node-03 1 replica, 1 of them with a failure or behind" in found
    assert found.index("gpu-node-01 1 replica") < found.index("gpu-node-03 1 replica")


@pytest.mark.parametrize(
    ("sort", "first"), [("", "master-0"), ("state", "worker-1"), ("restarts", "master-0"), ("nonsense", "master-0")]
)
def test_ranks_are_sorted_as_the_url_says(sort, first):
    play, now = BROKEN["oom-killed"]()
    text = Page(ranks.page(play.file(now), PageFrame(at(now)), {"sort": sort})).text
    names = ("master-0", "worker-0", "worker-1", "worker-2")
    table = text[text.index("The replicas of the job") :]
    assert min(names, key=table.index) == first


def test_a_rank_that_lags_is_marked_and_comes_first():
    play, now = WELL["healthy"]()
    file = play.file(now)
    lagging = {**file.document["status"], "stragglers": [{"rank": 2, "pod": "mnist-worker-1", "node": "gpu-node-03"}]}
    document = {**file.document, "status": lagging}
    file = msgspec.structs.replace(file, document=document, status=status_codec.parse_status(document))
    found = Page(ranks.page(file, PageFrame(at(now)), {"sort": "state"}))
    assert [given.get("class") for tag, given in found.elements if tag == "tr"][1] == "straggler"
    assert [
        "▼ behind" in found.text,
        "lags behind the others, which wait for it" in str(ranks.page(file, PageFrame(at(now)))),
    ] == [True] * 2


def test_the_pages_of_a_job_that_is_stalled_name_the_rank_that_is_behind_if_it_is_known():
    play, now = WELL["stalled-rank"]()
    file, frame = play.file(now), PageFrame(at(now))
    assert "rank 2 (mnist-worker-1 on gpu-node-03) is behind, and the others wait for it" in str(job.page(file, frame))
    found = Page(str(ranks.page(file, frame))).text
    assert ["▼ worker-1" in found, "▼ behind" in found, "no progress for 20m" in found] == [True] * 3
    assert ["Pace" in page_of(name).text for name in ("stalled-rank", "healthy")] == [False, True]
    assert "which rank is behind is not known" in page_of("stalled").text

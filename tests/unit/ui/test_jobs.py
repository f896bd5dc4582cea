"""The page of jobs: the worst first, filters, counts, and text that others have written."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from support.pages import NOW, Jobs, opened
from trainshed.api import status_codec
from trainshed.ui.live import APART, TICK, Update, pause
from trainshed.ui.model import JobFile, PageFrame
from trainshed.ui.pages import jobs as page
from trainshed.ui.pages.jobs import chosen, filters_of

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e\n"


def a_file(name, state="Running", message="", *, kind="PyTorchJob", namespace="ml", since="11:00", **more) -> JobFile:
    changed = {"status": "True", "message": message, "reason": state, "lastTransitionTime": f"2026-01-01T{since}:00Z"}
    status = {"conditions": [{"type": state, **changed}], "ready": "1/1", **more.pop("status", {})}
    if state in ("Stalled", "Blocked"):
        status = {"conditions": [{"type": "Running", **changed}], state.lower(): changed}
    metadata = {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": f"2026-01-01T{since}:00Z"}
    document = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": metadata | more, "status": status}
    return JobFile(document, status_codec.parse_status(document))


FILES = [
    a_file("done", "Succeeded"),
    a_file("fine", "Running"),
    a_file("slow", "Stalled", "no progress for 12m"),
    a_file("old", "Failed", "worker-0 was killed", since="09:00"),
    a_file("new", "Failed", "worker-1 was killed", since="10:00", namespace="vision"),
    a_file("stuck", "Blocked", "0/3 nodes are available", kind="TFJob"),
    a_file("queued", "Suspended", labels={"kueue.x-k8s.io/queue-name": "gpu"}),
]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["new", "old", "slow", "stuck", "fine", "queued", "done"]),
        ({"namespace": "vision"}, ["new"]),
        ({"ns": "vision"}, ["new"]),
        ({"kind": "TFJob"}, ["stuck"]),
        ({"state": "Failed"}, ["new", "old"]),
        ({"state": "Queued"}, ["queued"]),
        ({"state": "Deleted"}, []),
        ({"text": "KILLED worker-1"}, ["new"]),
        ({"text": "no such"}, []),
        ({"sort": "name"}, ["done", "fine", "new", "old", "queued", "slow", "stuck"]),
        ({"sort": "<nonsense>"}, ["new", "old", "slow", "stuck", "fine", "queued", "done"]),
    ],
)
def test_jobs_are_filtered_and_the_worst_are_first(query, names):
    assert [file.address.name for file in chosen(FILES, filters_of(query))] == names


def test_a_job_that_runs_and_will_be_stopped_too_early_is_no_good_news():
    report = {"estimatedRemainingSeconds": 9_000, "lastUpdatedTime": "2026-01-01T12:00:00Z"}
    late = a_file("late", status={"startTime": "2026-01-01T11:00:00Z", "trainerStatus": report})
    late.document["spec"] = {"runPolicy": {"activeDeadlineSeconds": 7_200}}
    assert [file.address.name for file in chosen((*FILES, late), filters_of({}))][4:6] == ["late", "fine"]
    row = str(page.row(late, NOW))
    assert (">Warning<" in row, "activeDeadlineSeconds stops it about" in row) == (True, True)
    assert ">Warning<" not in str(page.row(FILES[1], NOW))


def test_counts_are_of_all_states_that_the_other_filters_leave():
    text = str(page.counts(FILES, filters_of({"state": "Failed", "namespace": "ml"})))
    assert re.sub("<[^>]+>", " ", text).split() == [
        *("All", "6", "Failed", "1", "Stalled", "1", "Blocked", "1"),
        *("Running", "1", "Queued", "1", "Succeeded", "1"),
    ]
    assert 'href="/?namespace=ml" aria-current="true"' in text  # a second click takes the filter back


def test_what_others_have_written_is_text_in_one_line():
    file = a_file("x" + HOSTILE, "Failed", HOSTILE, namespace=HOSTILE)
    for found in (page.row(file, NOW), page.page([file], filters_of({"text": HOSTILE}), PageFrame(NOW))):
        text = str(found)
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "\x1b" not in re.sub(' (id|href|value)="[^"]*"', "", text)


def test_a_page_without_jobs_says_why():
    assert "There are no jobs here yet" in str(page.beside([], passed=0))
    assert "No job passes" in str(page.beside(FILES, passed=0))


async def test_what_changes_is_sent_and_nothing_else():
    jobs = Jobs()
    for name in ("a", "b"):
        jobs.create("PyTorchJob", name)
    async with opened(jobs) as (site, browser):
        following = asyncio.create_task(jobs.feed.run())
        await asyncio.wait_for(jobs.feed.synced.wait(), 10)
        await browser.get(site.access.new_link())
        async with browser.get(f"/live?since={jobs.feed.revision}") as stream:
            first = await message(stream)
            assert first["order"]["rows"] == ["job:ml/pytorchjob/a", "job:ml/pytorchjob/b"]
            assert not any(name.startswith("job:") for name in first["html"])
            jobs.state("PyTorchJob", "b", "Failed", "worker-0 was killed")
            second = await message(stream)
            assert second["order"]["rows"] == ["job:ml/pytorchjob/b", "job:ml/pytorchjob/a"]
            assert second["html"].keys() == {"job:ml/pytorchjob/b", "counts"}
            assert "worker-0 was killed" in second["html"]["job:ml/pytorchjob/b"]
        following.cancel()
        await asyncio.wait({following})


def test_of_very_many_jobs_the_first_are_shown_and_the_page_says_so():
    files = [a_file(f"job-{number:04}") for number in range(page.MOST_ROWS + 3)]
    text = str(page.page(files, filters_of({"sort": "name"}), PageFrame(NOW)))
    assert text.count('<tr id="job:') == page.MOST_ROWS
    assert f"The first {page.MOST_ROWS} of {page.MOST_ROWS + 3} jobs are shown." in text
    assert f"<span>{page.MOST_ROWS + 3}</span>" in text


async def test_a_job_that_moves_up_among_very_many_is_sent_with_its_row(monkeypatch):
    monkeypatch.setattr(page, "MOST_ROWS", 2)
    jobs = Jobs()
    for name in ("a", "b", "c"):
        jobs.create("PyTorchJob", name)
    async with opened(jobs) as (site, browser):
        following = asyncio.create_task(jobs.feed.run())
        await asyncio.wait_for(jobs.feed.synced.wait(), 10)
        await browser.get(site.access.new_link())
        async with browser.get(f"/live?sort=name&since={jobs.feed.revision}") as stream:
            assert (await message(stream))["order"]["rows"] == ["job:ml/pytorchjob/a", "job:ml/pytorchjob/b"]
            jobs.delete("PyTorchJob", "a")
            found = await message(stream)
            assert found["order"]["rows"] == ["job:ml/pytorchjob/b", "job:ml/pytorchjob/c"]
            assert "job:ml/pytorchjob/c" in found["html"]
        following.cancel()
        await asyncio.wait({following})


def test_what_an_address_asks_for_is_bounded():
    found = filters_of(dict.fromkeys(("text", "namespace", "kind", "state", "sort"), "word " * 1_000))
    assert max(map(len, (found.text, found.namespace, found.kind, found.state))) <= page.MOST_CHARACTERS


async def message(stream) -> dict:
    while True:
        line = await asyncio.wait_for(stream.content.readline(), 10)
        if line.startswith(b"data: "):
            return json.loads(line[6:])


@pytest.mark.parametrize(("took", "seconds"), [(0, APART), (APART / 8, APART), (0.5, 2), (60, TICK)])
def test_a_page_that_takes_long_to_draw_is_sent_less_often(took, seconds):
    assert pause(took) == seconds


def test_an_update_has_what_differs_from_the_last_one():
    update = Update()
    update.texts({"a": "1", "b": "2"})
    assert update.take() == {"texts": {"a": "1", "b": "2"}}
    update.texts({"a": "1", "b": "3"})
    assert update.take() == {"texts": {"b": "3"}}
    assert update.take() == {}


def test_jobs_that_were_never_read_are_not_said_to_be_none():
    assert "not known yet" in str(page.beside([], passed=0, is_known=False))
    assert "trainshed submit" not in str(page.page([], page.Filters(), PageFrame(NOW, is_known=False)))

"""The page of decisions: a step for each address, what the slider leads to, and what is said if there are none."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from support.builders import at
from support.decided import FAILED, JOB, RUNS, parts
from support.pages import Jobs, opened
from support.replace import replace
from trainshed import plan as planner
from trainshed.cli.local_page import _decisions
from trainshed.client import Forbidden
from trainshed.client.job_reader import NoSuchJob
from trainshed.decisions.recording import FILE, Encoder, Recording, decode, last_of_job
from trainshed.ui import asked_decisions
from trainshed.ui.asked_decisions import shown

PATH = "/jobs/ml/pytorchjob/mnist/decisions"
MARKUP = "<script>alert(1)</script>"
LATER = [replace(RUNS, now=at(100 + 10 * number), job=replace(JOB, generation=2 + number)) for number in range(4)]


@asynccontextmanager
async def page(monkeypatch: pytest.MonkeyPatch, *snapshots: object, **annotations: str):
    """The page of a job with these decisions, which is read again each time; yields what reads a query."""
    monkeypatch.setattr(asked_decisions, "LASTS", timedelta())
    jobs = Jobs()
    uid = jobs.create("PyTorchJob", "mnist")
    if annotations:
        jobs.annotate("PyTorchJob", "mnist", annotations)
    if snapshots:
        jobs.keep_decisions(uid, parts(*snapshots))
    following = asyncio.create_task(jobs.feed.run())
    await jobs.feed.synced.wait()
    async with opened(jobs) as (site, browser):
        await browser.get(site.access.new_link())

        async def read(query: str = "", path: str = PATH) -> tuple[str, str]:
            answer = await browser.get(f"{path}{query}")
            return str(answer.url.relative()).removeprefix(path), await answer.text()

        yield jobs, uid, read
    following.cancel()


@pytest.mark.parametrize(
    ("query", "address", "n"),
    [
        ("", "", 5),
        ("?decision=1", "?decision=1", 1),
        ("?decision=0", "?decision=0", 1),
        ("?decision=99", "?decision=99", 5),
        ("?decision=x", "?decision=x", 5),
        (f"?decision={'9' * 5000}", f"?decision={'9' * 5000}", 5),
        ("?step=2", "?decision=2", 2),
        ("?step=0", "?decision=1", 1),
        ("?step=-1", "?decision=5", 5),
        ("?step=999", "?decision=5", 5),
        ("?step=1&pod=mnist-worker-1", "?decision=2&pod=mnist-worker-1", 2),
    ],
)
async def test_each_step_has_an_address_and_the_slider_leads_to_it(monkeypatch, query: str, address: str, n: int):
    async with page(monkeypatch, RUNS, FAILED, *LATER[:3]) as (_, _, read):
        found, text = await read(query)
        assert found == address
        assert f"<h2>Decision {n} " in text


async def test_a_step_has_its_fact_rule_and_action_and_links_to_those_beside_it(monkeypatch: pytest.MonkeyPatch):
    async with page(monkeypatch, RUNS, FAILED, *LATER) as (_, _, read):
        _, text = await read("?decision=2")
        for words in (
            "2026-01-01 12:01:01Z",
            "container pytorch of pod mnist-worker-1 has ended with exit code 137 (OOMKilled)",
            "restart: Restart the failed replicas",
            "<p>delete pods mnist-master-0, mnist-worker-0, mnist-worker-1</p>",
            'type="range" name="step" min="1" max="6" value="2" aria-valuetext="step 2 of 6, 2026-01-01 12:01:01Z"',
            f'<a href="{PATH}?decision=1">Previous</a>',
            f'<a href="{PATH}?decision=3">Next</a>',
            f'<a href="{PATH}" aria-current="page">Decisions</a>',
        ):
            assert words in text
        assert 'aria-disabled="true">Previous</a>' in (await read("?decision=1"))[1]
        assert 'aria-disabled="true">Next</a>' in (await read())[1]


async def test_a_pod_is_chosen_at_the_decision_that_is_shown(monkeypatch: pytest.MonkeyPatch):
    async with page(monkeypatch, RUNS, FAILED) as (_, _, read):
        _, text = await read("?decision=2&pod=mnist-worker-1")
        assert ("step 1 of 1" in text, '<option value="mnist-worker-1" selected>' in text) == (True, True)
        assert '<input type="hidden" name="decision" value="2">' in text
        assert "decision 2 deleted mnist-worker-1 at 2026-01-01 12:01:01Z by the rule restart: " in text
        _, text = await read("?pod=other")
        assert ("no decision is about that pod" in text, "range" in text) == (True, False)
        _, text = await read(f"?pod=%22{MARKUP}%0a%ff")
        assert MARKUP not in text


async def test_why_there_are_none_is_what_the_command_says(monkeypatch: pytest.MonkeyPatch):
    async with page(monkeypatch) as (jobs, uid, read):
        _, text = await read()
        assert "pytorchjob/mnist are recorded: the job has no annotation trainshed.dev/record" in text
        assert "range" not in text
        jobs.keep_decisions(uid, {"part-00000001": "%%%"})
        assert "can be read from the ConfigMap" in (await read())[1]
        call = jobs.reader.rest.call

        async def refused(verb: str, path: object, *rest: object, **more: object) -> bytes:
            if "configmaps" in str(path):
                raise Forbidden('configmaps is forbidden: User "u" cannot get resource "configmaps" in API group ""')
            return await call(verb, path, *rest, **more)

        monkeypatch.setattr(jobs.reader.rest, "call", refused)
        assert "Ask for the right to get configmaps" in (await read())[1]
        assert "There is no pytorchjob other" in (await read("", "/jobs/ml/pytorchjob/other/decisions"))[1]


async def test_the_page_of_a_job_links_to_decisions_that_it_asks_for_and_else_says_how(monkeypatch: pytest.MonkeyPatch):
    job, tab, how = PATH.removesuffix("/decisions"), f'<li><a href="{PATH}">', "kubectl annotate pytorchjob/mnist -n ml"
    async with page(monkeypatch) as (_, _, read):
        text = (await read("", job))[1]
        assert (tab in text, how in text) == (False, True)
    async with page(monkeypatch, **{"trainshed.dev/record": "Decisions"}) as (_, _, read):
        text = (await read("", job))[1]
        assert (tab in text, how in text) == (True, False)
        assert "the operator does not run with --record-decisions" in (await read())[1]


async def test_decisions_are_kept_for_a_moment_and_of_a_job_that_is_gone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asked_decisions, "MOST_JOBS", 2)
    async with page(monkeypatch, RUNS, FAILED) as (jobs, uid, read):
        await read()
        jobs.delete("PyTorchJob", "mnist")
        await jobs.feed.newer(jobs.feed.revision)
        assert "<h2>Decision 2 " in (await read())[1]
        assert "The job does not exist any more; the decisions about a job go with it" in (await read("?pod=x"))[1]
        monkeypatch.setattr(asked_decisions, "LASTS", timedelta(seconds=5))
        jobs.keep_decisions(uid, {}, "DELETE")
        assert "<h2>Decision 2 " in (await read())[1]
        await read("?pod=y")
        assert "go with it" in (await read("?pod=x"))[1]


def test_what_is_shown_is_printable_and_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asked_decisions, "MOST_STEPS", 2)
    hostile = f"{MARKUP}\x1b[31m\u202e\n\ud800{'x' * 5000}"
    events = [{"reason": hostile, "message": hostile} for _ in range(80)]
    actions = [["DeletePod", {"name": name, "uid": "u"}] for name in (hostile, "ok")]
    line = Encoder("1.0").line(RUNS, planner.plan(RUNS))
    (one,) = decode([line])
    one = replace(one, rule=hostile, plan={"events": events, "actions": actions})
    found = shown(Recording("PyTorchJob", "ml", "mnist", [one] * 5), "")
    assert (len(found.steps), found.left, found.pods) == (2, 3, ("ok",))
    texts = [text for step in found.steps for text in (step.rule, *step.facts, *step.actions, *step.notes)]
    assert all(text.isprintable() and len(text) <= 1_000 for text in texts)
    assert any(re.fullmatch(r"and 3\d more lines", text) for text in texts)


def test_decisions_of_a_run_are_those_in_its_folder(tmp_path: Path):
    metadata = {"namespace": "ml", "name": "mnist", "uid": JOB.uid}
    encoder, job = Encoder("1.0"), {"kind": "PyTorchJob", "metadata": metadata}
    lines = [encoder.line(one, planner.plan(one)) for one in (RUNS, FAILED, *LATER)]
    (tmp_path / FILE).write_bytes(b"".join((*lines, b"torn")))
    assert [one.n for one in _decisions(tmp_path, job).decisions] == [1, 2, 3, 4, 5, 6]
    assert [(one.n, one.saw is None) for one in last_of_job([*lines, b"torn"], JOB.uid, 2)] == [(5, False), (6, False)]
    (tmp_path / FILE).write_bytes(b"torn")
    with pytest.raises(NoSuchJob, match="no decisions about pytorchjob/mnist are in "):
        _decisions(tmp_path, job)


async def test_a_folder_that_cannot_be_read_is_said(monkeypatch: pytest.MonkeyPatch):
    async def read(_file: object) -> Recording:
        raise OSError(5, "Input/output error")

    jobs = Jobs()
    jobs.create("PyTorchJob", "mnist")
    following = asyncio.create_task(jobs.feed.run())
    await jobs.feed.synced.wait()
    asked = asked_decisions.AskedDecisions(jobs.feed, read)
    assert "Input/output error" in (await asked.about(jobs.feed.files()[0], "")).problem
    following.cancel()

"""The stacks that a page reads when it is asked: only by a form of its own, once for all who ask, and bounded."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from support.pages import NOW, Jobs, opened
from trainshed.client import UNAUTHORIZED, Forbidden, Unavailable
from trainshed.client.ephemeral_containers import NotRun
from trainshed.progress.stack_frames import Frame
from trainshed.ui import asked_stacks
from trainshed.ui.asked_stacks import MOST_REPLICAS, shown
from trainshed.ui.model import Address
from trainshed.views.rank_stacks import GROUPS, PythonProcess, ReplicaStacks, Thread

PATH = "/jobs/ml/pytorchjob/mnist/stacks"
MARKUP = "<script>alert(1)</script>"


def a_process(*functions: str, path: str = "/app/train.py") -> list[PythonProcess]:
    frames = tuple(Frame(function, path, 7) for function in functions)
    return [PythonProcess(1, threads=(Thread("", main=True, frames=frames),))]


class Reader:
    """Reads these stacks, once `may_end` is set; counts how often."""

    def __init__(self, found: dict | Exception) -> None:
        self.found, self.asked, self.may_end = found, [], asyncio.Event()
        self.may_end.set()

    async def __call__(self, job: dict, kind: object, most: int) -> ReplicaStacks:
        self.asked.append((job["metadata"]["name"], most))
        await self.may_end.wait()
        if isinstance(self.found, Exception):
            raise self.found
        return ReplicaStacks(self.found)


@asynccontextmanager
async def page(reader: Reader | None, *names: str):
    """A page of jobs that its browser has entered, and what sends the form of one."""
    jobs = Jobs()
    for name in names or ("mnist",):
        jobs.create("PyTorchJob", name)
    following = asyncio.create_task(jobs.feed.run())
    await jobs.feed.synced.wait()
    async with opened(jobs, stacks=reader) as (site, browser):
        await browser.get(site.access.new_link())

        async def ask(path: str = PATH, **changed: str) -> tuple[int, str]:
            headers = {"Origin": site.access.origins[0]} | changed
            answer = await browser.post(path, data={"csrf": site.access.csrf}, headers=headers)
            return answer.status, await answer.text()

        yield site, browser, ask
    following.cancel()


async def test_ranks_at_the_same_place_are_shown_together_with_what_is_missing():
    found = {
        "master-0": a_process("all_reduce", "train"),
        "worker-0": a_process("load", "train"),
        "worker-1": a_process("all_reduce", "train"),
        "worker-2": NotRun("the pod is gone"),
    }
    async with page(Reader(found)) as (_, browser, ask):
        before = await (await browser.get(PATH)).text()
        assert "Read the stacks of mnist</button>" in before
        assert "read " not in before.partition('id="live"')[2]
        status, text = await ask()
        assert status == 200, "the redirect leads to the page"
        for words in (
            "2 ranks are in all_reduce, worker-0 is in load. The others may be waiting for worker-0.",
            "2 ranks: master-0, worker-1</strong> wait for all others",
            "1 rank: worker-0</strong>",
            "load (train.py:7)",
            "No stack of worker-2: the pod is gone",
        ):
            assert words in text
        assert (
            'href="/jobs/ml/pytorchjob/mnist/stacks"' in await (await browser.get("/jobs/ml/pytorchjob/mnist")).text()
        )


async def test_what_others_have_written_is_text_of_one_line():
    frames = a_process(f"{MARKUP}\x1b[31m\u202e", "x\ny", path=f"/{MARKUP}\r\nz.py")
    found = {f"worker-{MARKUP}": frames, "worker-1": NotRun(f"{MARKUP}\n\x1b]0;title\x07")}
    async with page(Reader(found)) as (_, _, ask):
        _, text = await ask()
        assert MARKUP not in text
        assert not {"\x1b", "\u202e", "\x07"} & set(text)
        assert "\nx y (script&gt; z.py:7)</pre>" in text
        assert "&lt;script&gt;" in text


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.test"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
async def test_only_a_form_of_the_page_reads_stacks(headers):
    reader = Reader({"master-0": a_process("train")})
    async with page(reader) as (site, browser, ask):
        assert (await ask(**headers))[0] == 403
        for body in ({}, {"csrf": "wrong"}):
            answer = await browser.post(PATH, data=body, headers={"Origin": site.access.origins[0]})
            assert answer.status == 403
        assert (await ask("/jobs/ml/pytorchjob/other/stacks"))[0] == 404
        assert reader.asked == []


async def test_a_page_that_reads_no_stacks_has_no_way_to():
    async with page(None) as (_, browser, ask):
        assert (await ask())[0] in (404, 405)
        assert (await browser.get(PATH)).status == 404
        text = await (await browser.get("/jobs/ml/pytorchjob/mnist")).text()
        assert "/stacks" not in text


async def test_who_asks_while_others_wait_gets_theirs_and_one_who_leaves_ends_nothing():
    reader = Reader({"master-0": a_process("train")})
    reader.may_end.clear()
    async with page(reader) as (site, _, ask):
        file = site.feed.file(Address("ml", "pytorchjob", "mnist"))
        asked = [asyncio.create_task(site.stacks.ask(file)) for _ in range(3)]
        while not reader.asked:
            await asyncio.sleep(0)
        asked[0].cancel()
        await asyncio.sleep(0)
        reader.may_end.set()
        await asyncio.gather(*asked[1:])
        assert reader.asked == [("mnist", MOST_REPLICAS)]
        assert "read 0s ago" in (await ask())[1]
        assert len(reader.asked) == 2


async def test_the_stacks_of_few_jobs_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asked_stacks, "MOST_JOBS", 2)
    async with page(Reader({"master-0": a_process("train")}), "a", "b", "c") as (_, browser, ask):
        for name in "abc":
            await ask(f"/jobs/ml/pytorchjob/{name}/stacks")
        pages = [await (await browser.get(f"/jobs/ml/pytorchjob/{name}/stacks")).text() for name in "abc"]
        assert ["ago</span>" in text for text in pages] == [False, True, True]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({}, "No replica runs."),
        (Forbidden("pods is forbidden"), "pods is forbidden"),
        (Unavailable("no", UNAUTHORIZED), "The API server rejects the credentials"),
    ],
    ids=["none", "forbidden", "unauthorized"],
)
async def test_why_there_are_none_is_on_the_page(found, words):
    async with page(Reader(found)) as (_, _, ask):
        assert words in (await ask())[1]


async def test_a_job_that_is_gone_has_none_but_those_that_were_read():
    reader = Reader({"master-0": a_process("train")})
    async with page(reader) as (site, _, ask):
        await ask()
        site.feed.kinds = ()
        assert "does not exist any more" in (await ask())[1]
        assert len(reader.asked) == 1


def test_what_is_shown_is_bounded():
    many = {
        f"worker-{number}": a_process(*(f"{number} {'f' * 6000}" for _ in range(60)), path=f"/app/{number}.py")
        for number in range(MOST_REPLICAS)
    }
    failed = {f"worker-x{number}": NotRun(f"{number} {'x' * 6000}") for number in range(MOST_REPLICAS)}
    found = shown(ReplicaStacks(many | failed, left=7, advice=("do this",)), NOW)
    texts = [*found.problems, *(frame for group in found.groups for frame in (*group.frames, *group.important))]
    assert len(found.groups) == len(found.problems) == GROUPS
    assert sum(map(len, texts)) < 1_000_000
    few = shown(ReplicaStacks(many, left=7, advice=("do this",)), NOW)
    assert few.problems == (
        f"Only {MOST_REPLICAS} replicas were read, and 7 more run: trainshed stacks reads all.",
        f"The ranks are at {MOST_REPLICAS} places, of which {GROUPS} are shown.",
    )
    assert few.advice == ("do this",)

"""`trainshed run --ui`: the page of a job on this machine, which stays after the job has ended."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest

from support.local_runs import Machine, a_job

from .fake_engine import containers, installed

LINK = re.compile(r"http://127\.0\.0\.1:\d+/\S*")
TIMES = re.compile(r"<time>\d\d:\d\d:\d\d\.\d\d\d</time><span>([^<]*)</span>")
#: A job whose replicas fail once, and are restarted.
SCRIPT = (
    "cd {folder}; test -e again-$RANK && echo second of $RANK && echo step 30/60 loss 0.5 && exit 0;"
    " echo first of $RANK; touch again-$RANK; exit {code}"
)


class LocalPage:
    """The page of a run whose job has ended; `read` returns the text at a path."""

    def __init__(self, link: str) -> None:
        self.link, self.base = link, link.partition("/?")[0]
        self._browser = build_opener(HTTPCookieProcessor(CookieJar()))

    def read(self, path: str) -> str:
        return self.sent(Request(f"{self.base}{path}"))

    def sent(self, request: Request) -> str:
        with self._browser.open(request, timeout=90) as answer:
            return answer.read().decode()


@contextmanager
def ended_run(folder: Path, restart: str, code: int) -> Iterator[LocalPage]:
    """Run the job until it has ended, open its page, and end it with Ctrl-C."""
    job = a_job(SCRIPT.format(folder=folder, code=code), restart=restart)
    with Machine(folder).start(job, arguments=("--ui",)) as process:
        try:
            lines = iter(process.stdout)
            link = next(found[0] for line in lines if (found := LINK.search(line)))
            assert next(lines) == "It opens once. Ctrl-C ends it.\n"
            for line in lines:
                if "The page stays until Ctrl-C." in line:
                    break
            yield LocalPage(link)
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


#: Restarted in its pod, and with another pod.
@pytest.mark.parametrize(("restart", "code"), [("OnFailure", 7), ("ExitCode", 130)])
def test_the_page_shows_a_local_job_its_log_and_the_run_before(tmp_path: Path, restart: str, code: int):
    with ended_run(tmp_path, restart, code) as page:
        jobs = page.read(page.link.removeprefix(page.base))
        assert ("Succeeded" in jobs, "50%" in jobs, "/cluster" in jobs) == (True, True, False)
        path = re.search(r'href="(/jobs/[^"?]+)"', jobs)[1]
        logs = TIMES.findall(page.read(f"{path}/logs"))
        assert sorted(logs) == ["first of 0", "first of 1", "second of 0", "second of 1", *["step 30/60 loss 0.5"] * 2]
        assert sorted(TIMES.findall(page.read(f"{path}/logs?previous=on"))) == ["first of 0", "first of 1"]
        decided = page.read(f"{path}/decisions")
        assert ("Apply cleanPodPolicy" in decided, f"{path}/decisions?decision=" in decided) == (True, True)
        job = page.read(path)
        assert not re.search("kubectl|trainshed (explain|logs|stacks|events)|API server", job)
        assert f"tail -n +1 -F {tmp_path}/state/trainshed-runs/" in job
        assert f"exited with code {code}" in job or restart == "ExitCode"
        with pytest.raises(HTTPError, match="404"):
            page.read("/cluster")
        with pytest.raises(HTTPError) as refused:
            LocalPage(page.link).read(page.link.removeprefix(page.base))
        assert "This link was used before" in refused.value.read().decode()


#: A job whose replicas stand in a function of their own until its page has read them.
STANDING = (
    "import os, pathlib, time\n"
    "def stands_here():\n"
    "    while not pathlib.Path('go').exists(): time.sleep(0.05)\n"
    "stands_here()\n"
)


def test_the_page_reads_what_the_ranks_of_a_local_job_are_doing(tmp_path: Path):
    (tmp_path / "train.py").write_text(STANDING)
    job = a_job(f"cd {tmp_path} && exec python3 train.py")
    with Machine(tmp_path).start(job, arguments=("--ui",)) as process:
        link = next(found[0] for line in process.stdout if (found := LINK.search(line)))
        page = LocalPage(link)
        first = page.link.removeprefix(page.base)
        while not (found := re.search(r'href="(/jobs/[^"?]+)"', page.read(first))):
            first = "/"
        path = found[1]
        csrf = re.search('name="csrf" value="([^"]+)"', page.read(f"{path}/stacks"))[1]
        refused = Request(f"{page.base}{path}/stacks", b"csrf=wrong", {"Origin": page.base})
        with pytest.raises(HTTPError, match="403"):
            page.sent(refused)
        read = Request(f"{page.base}{path}/stacks", f"csrf={csrf}".encode(), {"Origin": page.base})
        for _ in range(60):
            if "2 ranks are in stands_here." in (text := page.sent(read)):  # one may begin later than the other
                break
            time.sleep(0.5)
        assert "2 ranks are in stands_here." in text
        assert "stands_here (train.py:3)" in text
        (tmp_path / "go").touch()
        for line in process.stdout:
            if "The page stays until Ctrl-C." in line:
                break
        assert "No replica runs." in page.sent(read)
        process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0


def test_the_page_shows_for_how_long_pods_have_waited_for_an_image(tmp_path: Path, monkeypatch):
    """With docker the pods of a job are there while their images are pulled, as on a node."""
    engine, job = installed(tmp_path, monkeypatch), a_job("true")
    containers(job)[0]["image"] = "slow"
    with Machine(tmp_path).start(job, arguments=("--ui",), runtime="docker") as process:
        link = next(found[0] for line in process.stdout if (found := LINK.search(line)))
        page = LocalPage(link)
        first = page.link.removeprefix(page.base)
        while not (found := re.search(r'href="(/jobs/[^"?]+)"', page.read(first))):
            first = "/"
        while not (acts := re.findall(r"ImagePull \d\d:\d\d:\d\d to [^<]*", page.read(found[1]))):
            time.sleep(0.5)
        assert any(act.endswith("so far: pytorch: ContainerCreating: waits until image slow is pulled") for act in acts)
        assert engine.calls("create") == []
        time.sleep(1)  # the page shows whole seconds
        (engine.home / "images" / "slow").touch()
        for line in process.stdout:
            if "The page stays until Ctrl-C." in line:
                break
        (job_row, *rows) = re.findall(r"ImagePull (\d\d:\d\d:\d\d) to (\d\d:\d\d:\d\d), [^<:]*<", page.read(found[1]))
        assert (len(rows), job_row[0] < job_row[1]) == (2, True)
        process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0

"""`trainshed run --ui`: the page of a job on this machine, which stays after the job has ended."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from support.local_runs import Machine, a_job

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
        with self._browser.open(f"{self.base}{path}", timeout=30) as answer:
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
        job = page.read(path)
        assert not re.search("kubectl|trainshed (explain|logs|stacks|events)|API server", job)
        assert f"tail -n +1 -F {tmp_path}/state/trainshed-runs/" in job
        with pytest.raises(HTTPError, match="404"):
            page.read("/cluster")
        with pytest.raises(HTTPError) as refused:
            LocalPage(page.link).read(page.link.removeprefix(page.base))
        assert "This link was used before" in refused.value.read().decode()

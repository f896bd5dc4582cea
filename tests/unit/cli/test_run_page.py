"""`trainshed run --ui`: the page of a job on this machine, which stays after the job has ended."""

from __future__ import annotations

import re
import signal
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

from support.local_runs import Machine, a_job

LINK = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


def test_the_page_shows_a_local_job_and_its_log_until_ctrl_c(tmp_path: Path):
    with Machine(tmp_path).start(
        a_job("echo hello from $RANK; echo step 30/60 loss 0.5"), arguments=("--ui",)
    ) as process:
        try:
            lines = iter(process.stdout)
            link = next(found[0] for line in lines if (found := LINK.search(line)))
            for line in lines:
                if "The page stays until Ctrl-C." in line:
                    break
            browser = build_opener(HTTPCookieProcessor(CookieJar()))
            with browser.open(link, timeout=30) as answer:
                page = answer.read().decode()
            assert "Succeeded" in page
            assert "50%" in page
            path = re.search(r'href="(/jobs/[^"?]+)"', page)[1]
            with browser.open(f"{link.partition('/?')[0]}{path}/logs", timeout=30) as answer:
                assert "hello from 0" in answer.read().decode()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0

"""The page of `trainshed ui` in a real browser, Debian's Chromium without a window."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from testbed import debian

from .people import Person

#: Where screenshots are kept, the widths of them in pixels, and the heights.
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
SIZES = ((360, 800), (1280, 900), (2560, 1300))
CHROMIUM = "/usr/bin/chromium"
LINK = re.compile(r"http://127\.0\.0\.1:\d+\S+")
#: What the browser must never say: it has refused to load something, or a script has failed.
COMPLAINTS = ("error", "warning")
#: Seconds within which something must be seen.
PATIENCE = 60


class Ui:
    """A process of `trainshed ui`: `link` opens it once, `base` is its origin."""

    def __init__(self, process: subprocess.Popen[str], link: str) -> None:
        self.process, self.link = process, link
        self.base = re.match(r"http://[^/]+", link)[0]

    @classmethod
    def start(cls, person: Person, *words: str, **environment: str) -> Self:
        """Start it with the rights of a person, and read the link that it prints."""
        command = person.command("ui", "--no-browser", *words)
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | environment
        )
        lines = []
        for line in process.stdout or ():
            lines.append(line)
            if found := LINK.search(line):
                return cls(process, found[0])
        raise AssertionError(f"no link is printed: {''.join(lines)}")

    def asked(self, path: str, verb: str = "GET", body: str = "", **headers: str) -> int:
        """Return the status of the answer to a request of a program that sends what it likes."""
        found = urlsplit(self.base)
        connection = http.client.HTTPConnection(found.hostname or "", found.port, timeout=20)
        connection.request(verb, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        status = connection.getresponse().status
        connection.close()
        return status

    def stop(self) -> int:
        """End it as Ctrl-C does, and return its exit code."""
        self.process.terminate()
        self.process.communicate(timeout=30)
        return self.process.returncode


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a browser; Debian's package is installed where it is missing."""
    debian.ensure("chromium")
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as player, _launched(player) as browser:
        yield browser


@contextmanager
def _launched(player: Playwright) -> Iterator[Browser]:
    browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
    try:
        yield browser
    finally:
        browser.close()


class Visitor:
    """A user with a browser, which has complained about nothing at the end."""

    def __init__(self, context: BrowserContext) -> None:
        self.context, self.complaints = context, []
        context.set_default_timeout(PATIENCE * 1000)

    def open(self, url: str) -> Page:
        page = self.context.new_page()
        page.on("console", lambda line: line.type in COMPLAINTS and self.complaints.append(line.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(url)
        return page

    def cookie(self, ui: Ui) -> dict:
        """Return the cookie of a page: browsers have one jar for all ports of a host."""
        return next(one for one in self.context.cookies() if one["name"].endswith(ui.base.rpartition(":")[2]))

    def leave(self) -> None:
        """Close all tabs: a browser complains of streams that end under it."""
        for page in self.context.pages:
            page.close()


def screenshots(page: Page, name: str) -> None:
    """Keep pictures of a page in three widths, light and dark, in build/screenshots if TRAINSHED_SCREENSHOTS is set."""
    if not os.environ.get("TRAINSHED_SCREENSHOTS"):
        return
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    before = page.viewport_size
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            page.screenshot(path=SCREENSHOTS / f"{name}-{width}-{scheme}.png")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(before or {"width": 1280, "height": 900})

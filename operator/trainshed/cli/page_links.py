"""Links to a page that open it once: printed, opened in a browser, and printed again when the user presses Enter."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

#: What a browser reads that is started with a file: other users see the arguments of processes, but not this file.
REDIRECT = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={link}">'
#: Seconds for which the file stays: by then a browser has read it.
READ_WITHIN = 60.0
#: Seconds between two checks whether the user has pressed Enter, and the most bytes of what was typed before.
POLL_SECONDS, MOST_INPUT = 0.25, 4096


@asynccontextmanager
async def offered(new_link: Callable[[], str], say: Callable[[str], None], *, browser: bool) -> AsyncIterator[None]:
    """Print a link, and another one whenever the user presses Enter; open it in a browser if there is a screen."""
    link = new_link()
    asks = sys.stdin is not None and sys.stdin.isatty()
    say(f"The page is at {link}")
    say(f"It opens once. {'Enter prints another link. ' if asks else ''}Ctrl-C ends it.")
    tasks = [asyncio.create_task(print_links(new_link, say, sys.stdin.fileno()))] if asks else []
    if browser and _has_screen():
        tasks.append(asyncio.create_task(_open(link)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def print_links(new_link: Callable[[], str], say: Callable[[str], None], terminal: int) -> None:
    """Print another link each time the user presses Enter, until the end of the terminal's input."""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        if not _has_input(terminal):
            continue
        if not os.read(terminal, MOST_INPUT):
            return
        say(f"Another link, which opens once: {new_link()}")


def _has_input(terminal: int) -> bool:
    """Return whether a line can be read: a process in the background is stopped when it reads a terminal."""
    try:
        is_ours = os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # it is not the terminal of this session
        return False
    return is_ours and bool(select.select([terminal], [], [], 0)[0])


def _has_screen() -> bool:
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


async def _open(link: str) -> None:
    """Open the link in a browser by way of a file that only the user can read."""
    with TemporaryDirectory(prefix="trainshed-") as folder:  # of mode 0700
        with suppress(OSError):
            await asyncio.to_thread(_show, Path(folder, "open.html"), link)
        await asyncio.sleep(READ_WITHIN)


def _show(file: Path, link: str) -> None:
    import webbrowser  # noqa: PLC0415 - only needed with a screen

    file.write_text(REDIRECT.format(link=link))
    with suppress(webbrowser.Error):
        webbrowser.open(file.as_uri())

"""`trainshed ui` at a terminal: another link for a user whose browser was the wrong one."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator

import pytest

from trainshed.cli import page_links
from trainshed.ui.access import Access

LINK = re.compile(r"http://127\.0\.0\.1:1234/\?token=(\S+)")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """The user's end of a terminal and the process's, which is in the foreground."""
    ends = os.openpty()
    monkeypatch.setattr(page_links, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(os, "tcgetpgrp", lambda _: os.getpgrp())
    yield ends
    for end in ends:
        os.close(end)


async def test_each_enter_prints_a_link_that_opens_the_page_once(terminal, capsys: pytest.CaptureFixture[str]):
    user, process = terminal
    access = Access()
    access.port = 1234
    first = LINK.fullmatch(access.new_link())[1]
    printing = asyncio.create_task(page_links.print_links(access.new_link, print, process))
    tokens = [first]
    for _ in range(2):
        os.write(user, b"\n")
        said = ""
        async with asyncio.timeout(30):
            while not (found := LINK.search(said)):
                await asyncio.sleep(0.01)
                said += capsys.readouterr().out
        tokens.append(found[1])
    assert len(set(tokens)) == 3
    assert [bool(access.enter(token)) for token in (*tokens, tokens[-1])] == [False, False, True, False]
    os.write(user, b"\x04")  # Ctrl-D ends the input, and not the page
    async with asyncio.timeout(30):
        await printing


@pytest.mark.parametrize("group", [1, OSError()], ids=["in the background", "not the terminal of the session"])
def test_a_terminal_of_others_is_not_read(terminal, monkeypatch: pytest.MonkeyPatch, group: int | OSError):
    user, process = terminal

    def foreground(_: int) -> int:
        if isinstance(group, OSError):
            raise group
        return group

    os.write(user, b"\n")
    assert page_links._has_input(process)
    monkeypatch.setattr(os, "tcgetpgrp", foreground)
    assert not page_links._has_input(process)

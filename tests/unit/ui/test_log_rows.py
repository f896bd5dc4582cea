"""Lines of logs as HTML: colours of programs, severity, and lines that are hostile."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from trainshed.api.foreign_text import DIRECTIONS
from trainshed.ui.drawings import ansi
from trainshed.ui.pages import log_rows
from trainshed.ui.replica_logs import RawLine


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m plain", '<span class="ansi-1">red</span> plain'),
        ("\x1b[1;92mgood\x1b[22m so", '<span class="bold ansi-10">good</span><span class="ansi-10"> so</span>'),
        ("\x1b[44mback\x1b[49m", '<span class="behind-4">back</span>'),
        ("\x1b[107mback", '<span class="behind-15">back</span>'),
        ("\x1b[38;5;9mx", '<span class="ansi-9">x</span>'),
        ("\x1b[38;5;196mx", '<span class="ansi-9">x</span>'),
        ("\x1b[38;5;240mx", '<span class="ansi-8">x</span>'),
        ("\x1b[38;2;0;100;0mx", '<span class="ansi-2">x</span>'),
        ("\x1b[38:2:0:0:250mx", '<span class="ansi-12">x</span>'),
        ("\x1b[38;5;999mx\x1b[38mx\x1b[5mx", "xxx"),
        ("\x1b[3;4;9mx\x1b[mx", '<span class="italic struck underlined">x</span>x'),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ('\x1b[32m"><img src=x>', '<span class="ansi-2">&#34;&gt;&lt;img src=x&gt;</span>'),
        ("\x1b]0;title\x07a\x1b[2Jb\u202ec\x00d\x9b31me", "abcde"),
        ("\x1b[3", ""),
    ],
)
def test_a_line_is_html_with_the_colours_of_the_program(text: str, html: str):
    assert ansi.html(text, 2_000) == Markup(html)


def test_a_line_is_cut_and_says_by_how_much():
    found = ansi.html("x" * 1_000_000, 2_000)
    assert found == Markup("x" * 2_000 + '<span class="more"> … and 998,000 more characters</span>')


def test_a_colour_that_the_cut_divides_leaves_nothing_of_itself():
    assert ansi.html("ab\x1b[31mcd", 4) == Markup('ab<span class="more"> … and 5 more characters</span>')


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2026-01-01 ERROR no such file", " error"),
        ("\x1b[31mERROR\x1b[0m", " error"),
        ("RuntimeError: CUDA out of memory", " error"),
        ("Traceback (most recent call last):", " error"),
        ("E0523 10:00:00.000 1 main.go:1] no", " error"),
        ("WARNING: slow", " warning"),
        ("W0523 10:00:00.000 1 main.go:1] no", " warning"),
        ("UserWarning: lr", " warning"),
        ("error rate 0.1, 3 warnings", ""),
        ("terror", ""),
        ("x" * 200 + " ERROR", ""),
    ],
)
def test_a_line_has_the_severity_of_its_words(text: str, kind: str):
    assert log_rows.severity(text) == kind


def test_a_row_has_the_replica_in_its_colour_and_the_time_to_the_millisecond():
    shown = log_rows.ReplicaColours.of(["master-0", "worker-0"])
    line = RawLine("2026-01-01T12:00:00.123456789Z", "worker-0", "step 1")
    assert log_rows.html([line], shown) == Markup(
        '<p class="line"><b class="who who-1">worker-0</b><time>12:00:00.123</time><span>step 1</span></p>'
    )


def test_no_character_of_a_hostile_line_acts():
    text = "\u202e\x1b[2J\x00\x07\x9d0;t\x9c\u2028<script>\x1b[31m&" + "".join(DIRECTIONS)
    found = str(log_rows.html([RawLine("\x1b[2J\u202e2026-01-01T<", "w<", text)], log_rows.ReplicaColours.of(["w<"])))
    assert not set(found) & ({"\x1b", "\x00", "\x07", "\x9c", "\x9d", "\u2028"} | DIRECTIONS)
    assert "<script>" not in found
    assert "w&lt;" in found


def test_lines_that_were_left_out_are_counted():
    assert log_rows.left_out(0) == Markup("")
    assert "12,000 lines were left out" in log_rows.left_out(12_000)
    assert "1 line was left out" in log_rows.left_out(1)

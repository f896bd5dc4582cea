"""Text of others is made printable, in one line or in lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.api.foreign_text import escaped, harmless, inert, json_escaped, lines, one_line

BIDI, NO_WIDTH, C1 = "a\u202eb\u2066c\u200f", "a\u200bb\u2060c\ufeff\u00ad", "a\x9b31mb\x85c"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("  as it is: é 漢 \U0001f600", "  as it is: é 漢 \U0001f600"),
        ("A\n2026-01-01 ERROR FORGED\x1b[2J", "A 2026-01-01 ERROR FORGED"),
        ("\r\n a \t\v\f\u2028\u2029 b\x1c\n", "a b"),
        ("\x1b]0;title\x07a\x1b[38;5;1mb\x1b[0m\x1bPq#0\x1b\\c\x1b]8;;http://x\x1b\\d", "abcd"),
        ("a\x1b]0;never ended", "a"),
        ("a\x00\x08\x7f\x1bb", "a"),
        (BIDI, "abc"),
        (NO_WIDTH, "abc"),
        (C1, "ab c"),
        ("a\ud800b\ue000c", "abc"),
    ],
)
def test_a_line_has_only_printable_characters(text, line):
    assert one_line(text) == line


def test_a_line_is_cut_where_it_is_too_long():
    assert one_line("x" * 10, 10) == "x" * 10
    assert one_line("x" * 11, 10) == "x" * 9 + "…"


def test_lines_keep_their_indentation():
    assert lines(" as it is ") == "as it is"
    assert lines("Traceback:\r\n  File\x1b[0m\n\tx = 1 \n\n\x1b[1mValueError\x00\r100%\n") == (
        "Traceback:\n  File\n    x = 1\n\nValueError\n100%"
    )


def test_what_is_not_printable_is_escaped_in_a_log():
    assert escaped("as it is") == "as it is"
    assert escaped("a\nb\x1b[2J\u202e\ud800é") == "a\\nb\\x1b[2J\\u202e\\ud800é"


@pytest.mark.parametrize(
    ("line", "plain", "coloured"),
    [
        ("as it is", "as it is", "as it is"),
        ("\x1b[31mred\tand\x1b[2J so on", "red\tand so on", "\x1b[31mred\tand so on\x1b[0m"),
        ("a\rb\u2028c\u202ed\ud800", "abcd", "abcd"),
    ],
)
def test_a_line_of_a_log_has_nothing_but_its_colours_that_acts_on_a_terminal(line, plain, coloured):
    assert (harmless(line), harmless(line, colour=True)) == (plain, coloured)


def test_a_document_loses_its_control_characters_and_nothing_else():
    assert inert("a:\n\t- \x1b[2Jé\u202e\n") == "a:\n\t- [2Jé\n"


CHARACTERS = "\x1b[31m\u009b31m\u009d0;title\u009c\x7f\u202e\u2028\u200b\U000e0001é😀"


def test_json_has_no_character_that_acts_on_a_terminal_and_means_the_same():
    text = json_escaped(json.dumps({"note": CHARACTERS}, indent=4, ensure_ascii=False))
    assert all(map(str.isprintable, text.split("\n")))
    assert json.loads(text) == {"note": CHARACTERS}
    assert "é😀" in text
    assert json_escaped("{}") == "{}"


@given(st.text(st.characters(exclude_categories=())))
def test_no_text_breaks_out_of_its_line(text):
    assert one_line(text).isprintable()
    assert escaped(text).isprintable()
    assert one_line(one_line(text)) == one_line(text)
    assert all(line.isprintable() for line in lines(text).split("\n"))

"""What others have written is text in Markdown, whatever it has."""

from __future__ import annotations

import pytest

from trainshed.views import markdown
from trainshed.views.post_mortem import Table


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ("plain text, 2.5 and a-b", "plain text, 2.5 and a-b"),
        ("2026-01-01T12:00:00Z", "2026-01-01T12:00:00Z"),
        ("*bold* _it_ `code`", r"\*bold\* \_it\_ \`code\`"),
        ("[a](b) <b>x</b> a|b ~s~ &amp; $x$", r"\[a\](b) \<b\>x\</b\> a\|b \~s\~ \&amp; \$x\$"),
        ("# title", r"\# title"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("2) item", r"2\) item"),
        ("two\nlines\x1b[31m", "two lines"),
        ("back\\slash", r"back\\slash"),
    ],
)
def test_no_character_means_anything(found: str, shown: str):
    assert markdown.text(found) == shown


def test_a_block_ends_where_it_ends():
    block = markdown.block("a\n```\nb\x1b[1m\n`````")
    assert block == "``````text\na\n```\nb\n`````\n``````"


def test_an_empty_table_is_left_out():
    assert list(markdown.table(Table("T", ("a",), ()))) == []
    heading, rows = markdown.table(Table("T", ("a", "b"), (("x|y", ""),)))
    assert (heading, rows) == ("## T", "| a | b |\n|---|---|\n| x\\|y |  |")

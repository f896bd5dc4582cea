"""The report of the comparison: ratios, a picture, and the part of the page that it replaces."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from .report import BEGIN, END, PAGE, PICTURE, drawn, table, write

MEDIANS = {
    "trainshed": {"time, s": 2.0, "memory, MB": 90.0, "alone, s": 1.0},
    "training-operator-uncapped": {"time, s": 4.0, "memory, MB": 45.0},
    "floor": {"time, s": 1.0},
    "full floor": {"time, s": 1.6},
}


def test_the_table_has_ratios_where_both_have_a_figure():
    head, line, *rows = table(MEDIANS).splitlines()
    assert head.count("|") == line.count("|") == rows[0].count("|")
    assert rows == [
        "| time, s | 2 | 4 | 1 | 1.6 | 0.50 | 2.00 | 1.25 |",
        "| memory, MB | 90 | 45 |  |  | 2.00 |  |  |",
        "| alone, s | 1 |  |  |  |  |  |  |",
    ]


def test_the_picture_has_a_bar_for_each_ratio_and_cuts_long_ones():
    bars = [each for each in ET.fromstring(drawn(MEDIANS)).iter() if each.tag.endswith("rect")][1:]
    assert [(bar.get("class"), bar.get("width")) for bar in bars] == [("good", "130"), ("bad", "390")]


def test_only_the_part_between_the_marks_is_replaced(tmp_path):
    page = tmp_path / PAGE
    for path in (page, tmp_path / PICTURE):
        path.parent.mkdir(parents=True)
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        write(tmp_path, MEDIANS, "Medians.")
    assert page.read_text() == f"before\n{BEGIN}\nMedians.\n\n{table(MEDIANS)}{END}\nafter\n"
    assert (tmp_path / PICTURE).read_text() == drawn(MEDIANS)

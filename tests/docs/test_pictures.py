"""What is generated in docs/ is as fresh as the operator's tables, and draws all that they say."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from laws import MOVES
from trainshed.frameworks import FRAMEWORKS
from trainshed.plan.ladder import LADDER

from . import kinds, pictures, tables, written
from .drawing import Box, arrow

SVG = "{http://www.w3.org/2000/svg}"


def test_docs_are_fresh():
    assert [path.name for path in written.stale()] == [], "PYTHONPATH=tests python -m docs"


def test_the_states_are_drawn_with_every_move():
    drawn = ET.fromstring(pictures.states())
    inside = {(one, other) for one in pictures.INSIDE for other in set(MOVES[one]) & set(pictures.INSIDE) - {one}}
    shared = set.intersection(*(MOVES[state] for state in pictures.INSIDE)) - set(pictures.INSIDE)
    assert shared == {"Succeeded", "Failed", "Suspended"}
    outside = sum(len(MOVES[state] - {state}) for state in shared)
    assert len(drawn.findall(f"{SVG}path[@class='arrow']")) == len(inside) + len(shared) + outside + len({"new"})
    assert {text.text for text in drawn.iter(f"{SVG}text")} >= set(MOVES) - {""}


def test_the_ladder_is_drawn_rule_by_rule():
    drawn = ET.fromstring(pictures.ladder())
    assert [text.text for text in drawn.findall(f"{SVG}text[@class='mono']")] == [rule.__name__ for rule in LADDER]


def test_an_arrow_leads_from_border_to_border():
    assert arrow(Box(0, 0, 20, 10), Box(100, 0, 20, 10)) == '<path class="arrow" d="M10 0 L90 0"/>'
    assert arrow(Box(0, 0, 20, 10), Box(0, 100, 20, 10), aside=5) == '<path class="arrow" d="M-5 5 L-5 95"/>'


def test_every_kind_has_its_page_with_all_its_parts():
    for framework in FRAMEWORKS:
        text = (written.DOCS / "kinds" / f"{framework.kind.lower()}.md").read_text()
        assert {what for what, _ in written.PART.findall(text)} == {"glance", "goals", "example", "environment"}
        assert kinds.SHAPES[framework.kind]


def test_an_example_is_shown_as_it_stands_in_its_file():
    shown = kinds.example("jax/spmd").removeprefix("```yaml\n").removesuffix("\n```")
    lines = (kinds.EXAMPLES / "jax" / "spmd.yaml").read_text().splitlines()
    assert [line for line in shown.splitlines() if line not in lines] == []
    assert "example.trainshed.dev" not in shown
    assert re.search(r"^spec:$", shown, re.MULTILINE)


def test_what_a_template_sets_is_not_said_to_be_the_operators():
    shown = kinds.environment("jax/spmd")
    assert "`PROCESS_ID` | `0` | `1` |" in shown
    assert "XLA_FLAGS" not in shown


def test_reasons_that_are_named_are_those_of_the_table():
    assert all(f"`{reason}`" in tables.classes() for reason in tables.KNOWN)

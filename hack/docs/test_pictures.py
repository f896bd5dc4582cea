"""The generated parts of docs/ are up to date and complete."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from support.audit.conditions import TRANSITIONS
from trainshed.frameworks import FRAMEWORKS
from trainshed.plan.rules import RULES
from trainshed.ui.pages import jobs

from . import kinds, pictures, shown_jobs, written
from .__main__ import main
from .drawing import Box, arrow

SVG, HTML = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xhtml}"


def test_a_stale_page_is_named_and_fails_the_check(tmp_path, monkeypatch):
    stale = tmp_path / "a.svg"
    monkeypatch.setattr(written, "wanted", lambda: {stale: "new"})
    result = CliRunner().invoke(main, ["--check"])
    assert (result.exit_code, result.output) == (1, "a.svg is stale: PYTHONPATH=tests:hack python -m docs\n")
    assert CliRunner().invoke(main, []).exit_code == 0
    assert stale.read_text() == "new"
    assert CliRunner().invoke(main, ["--check"]).exit_code == 0


def test_every_transition_of_the_states_is_drawn():
    drawn = ET.fromstring(pictures.states())
    inside = {(one, other) for one in pictures.INSIDE for other in set(TRANSITIONS[one]) & set(pictures.INSIDE) - {one}}
    shared = set.intersection(*(TRANSITIONS[state] for state in pictures.INSIDE)) - set(pictures.INSIDE)
    assert shared == {"Succeeded", "Failed", "Suspended"}
    outside = sum(len(TRANSITIONS[state] - {state}) for state in shared)
    assert len(drawn.findall(f"{SVG}path[@class='arrow']")) == len(inside) + len(shared) + outside + len({"new"})
    assert {text.text for text in drawn.iter(f"{SVG}text")} >= set(TRANSITIONS) - {""}


def test_every_rule_is_drawn_in_order():
    drawn = ET.fromstring(pictures.rules())
    assert [text.text for text in drawn.findall(f"{SVG}text[@class='mono']")] == [rule.__name__ for rule in RULES]


def test_an_arrow_connects_the_borders_of_two_boxes():
    assert arrow(Box(0, 0, 20, 10), Box(100, 0, 20, 10)) == '<path class="arrow" d="M10 0 L90 0"/>'
    assert arrow(Box(0, 0, 20, 10), Box(0, 100, 20, 10), aside=5) == '<path class="arrow" d="M-5 5 L-5 95"/>'


@pytest.mark.parametrize("name", ["page-jobs.svg", "page-job.svg"])
def test_a_picture_of_the_page_is_small_runs_nothing_and_loads_nothing(name):
    text = (written.DOCS / "pictures" / name).read_text()
    drawn = ET.fromstring(text)
    assert len(text) <= 80_000
    assert {found.tag.rpartition("}")[0] + "}" for found in drawn.iter()} == {SVG, HTML}
    assert not {found.tag.rpartition("}")[2] for found in drawn.iter()} & {"script", "link", "img", "image", "iframe"}
    named = [value for found in drawn.iter() for key, value in found.attrib.items() if key in ("href", "src", "style")]
    assert all(value.startswith("#") for value in named)
    assert not re.search(r"@import|url\((?!#)|<[^>]*\son\w+=", text)
    assert {"width", "height", "viewBox", "aria-label"} <= drawn.attrib.keys()
    assert "prefers-color-scheme: dark" in text


def test_the_picture_of_all_jobs_has_all_sorts_and_the_worst_are_first():
    found = jobs.chosen(shown_jobs.cluster(), jobs.Filters())
    assert len(found) >= 12
    states = list(dict.fromkeys(file.state for file in found))
    assert states == [state for state in jobs.WORST_FIRST if state in states]
    assert {"Failed", "Stalled", "Blocked", "Restarting", "Running", "Queued", "Succeeded"} <= set(states)
    assert {file.document["kind"] for file in found} == {framework.kind for framework in FRAMEWORKS}


def test_every_kind_has_a_page_with_all_generated_parts():
    for framework in FRAMEWORKS:
        text = (written.DOCS / "kinds" / f"{framework.kind.lower()}.md").read_text()
        assert {what for what, _ in written.PART.findall(text)} == {"glance", "goals", "example", "environment"}
        assert kinds.SHAPES[framework.kind]


def test_an_example_is_shown_literally():
    shown = kinds.example("jax/spmd").removeprefix("```yaml\n").removesuffix("\n```")
    lines = (kinds.EXAMPLES / "jax" / "spmd.yaml").read_text().splitlines()
    assert [line for line in shown.splitlines() if line not in lines] == []
    assert "example.trainshed.dev" not in shown
    assert re.search(r"^spec:$", shown, re.MULTILINE)


def test_variables_of_the_template_are_not_listed():
    shown = kinds.environment("jax/spmd")
    assert "`PROCESS_ID` | `0` | `1` |" in shown
    assert "XLA_FLAGS" not in shown

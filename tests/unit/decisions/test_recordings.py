"""What earlier versions have decided is decided again, or the changelog says that it is decided otherwise, and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.recordings import FOLDER, STORIES, recorded
from support.replace import replace
from trainshed import plan as planner
from trainshed.decisions.again import differences
from trainshed.decisions.recording import Decision, decode

ROOT = Path(__file__).parents[3]
#: A line of the changelog: the version and the story of a recording, the numbers of decisions, and why.
NAMED = re.compile(r"^- Decides otherwise: (\S+/\S+) (\d+(?:, \d+)*): \S", re.MULTILINE)


def recordings() -> dict[str, list[Decision]]:
    """Return the recordings of all versions by their names, such as 0.2.0/restart."""
    files = sorted(FOLDER.glob("*/*.jsonl"))
    return {f"{file.parent.name}/{file.stem}": decode(file.read_bytes().splitlines()) for file in files}


def otherwise(found: dict[str, list[Decision]]) -> set[tuple[str, int]]:
    """Return the decisions that this version makes otherwise, or cannot read."""
    changed = {(name, one.decision.n) for name, decisions in found.items() for one in differences(decisions)}
    return changed | {(name, one.n) for name, decisions in found.items() for one in decisions if one.saw is None}


def named(changelog: str) -> set[tuple[str, int]]:
    """Return the decisions that a changelog names."""
    return {(name, int(n)) for name, numbers in NAMED.findall(changelog) for n in numbers.split(", ")}


def test_each_decision_that_is_made_otherwise_is_named_in_the_changelog():
    found = otherwise(recordings())
    known = named((ROOT / "CHANGELOG.md").read_text())
    assert sorted(found - known) == [], 'decided otherwise: add "- Decides otherwise: NAME N, N: why" to CHANGELOG.md'
    assert sorted(known - found) == [], "named in CHANGELOG.md, and decided as before"


def test_the_newest_version_of_the_changelog_has_a_recording_of_each_story():
    newest = re.search(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    found = recordings()
    for story in STORIES:
        decisions = found[f"{newest[1]}/{story.__name__}"]
        assert len(decisions) > 1, "python -m support.recordings VERSION"
        assert {one.version for one in decisions} == {newest[1]}


RULES = {
    "success": {"reconcile_replicas", "succeed"},
    "restart": {"restart", "fail"},
    "eviction": {"restart"},
    "backoff_limit": {"restart", "fail"},
    "clean_up": {"succeed"},
    "scaling": {"restart", "reconcile_replicas"},
}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_story_has_the_rules_that_it_is_about(story):
    found = decode(recorded(story, "1.0").splitlines())
    assert {one.rule for one in found} >= RULES[story.__name__]
    assert otherwise({"x": found}) == set()


def test_a_changed_decision_is_found_and_its_name_is_read(monkeypatch: pytest.MonkeyPatch):
    name, decisions = next(iter(recordings().items()))
    monkeypatch.setattr("trainshed.decisions.again.decide_again", lambda one: replace(planner.plan(one), rule="x"))
    assert otherwise({name: decisions}) == {(name, one.n) for one in decisions}
    assert named(f"- Decides otherwise: {name} 1, 3: as it is wrong\n- Other") == {(name, 1), (name, 3)}

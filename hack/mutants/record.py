"""The outcomes of the trials: a table for the terminal, and a file of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reliability.results import keep, kept, place

from .bugs import OWN, Bug
from .levels import LEVELS, Level
from .trial import Verdict

RESULTS = place("mutants")
KILLED, LIVES, ENDLESS, UNTRIED = "killed", "lives", "no end", "-"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the levels that were tried say of a bug, by their names; `unusable` why they say nothing."""

    bug: Bug
    verdicts: Mapping[str, Verdict]
    unusable: str = ""

    @property
    def killer(self) -> Verdict | None:
        """The first level that has noticed, or None."""
        return next((verdict for verdict in self.verdicts.values() if verdict.killer), None)


def line(outcome: Outcome) -> str:
    """One bug in a line."""
    bug, killer = outcome.bug, outcome.killer
    if outcome.unusable:
        return f"{bug.source:4} {bug.id:28} UNUSABLE {outcome.unusable.splitlines()[0]}"
    cells = " ".join(f"{_cell(outcome, level):10}" for level in LEVELS)
    return f"{bug.source:4} {bug.id:28} {cells} {_short(killer.killer) if killer else bug.claim}"


def header() -> str:
    """What stands above the lines."""
    return f"{'':4} {'':28} " + " ".join(f"{level.name:10}" for level in LEVELS) + " first killed by"


def total(outcomes: Sequence[Outcome]) -> str:
    """All bugs in a line."""
    killed = sum(1 for outcome in outcomes if outcome.killer)
    return f"{killed} of {len(outcomes)} seeded bugs killed"


def remember(outcomes: Sequence[Outcome], known: Iterable[str], command: str, path: Path = RESULTS) -> None:
    """Keep the figures of these outcomes, and what is known of other levels and bugs as it was."""
    records = {record["bug"]: record for record in kept(path).get("seeded_bugs", ())}
    for outcome in outcomes:
        fresh = _record(outcome)
        old = records.get(outcome.bug.id, {})
        records[outcome.bug.id] = {key: old.get(key, word) if word == UNTRIED else word for key, word in fresh.items()}
    keep(path, command, _figures([records[name] for name in known if name in records]))


def _record(outcome: Outcome) -> dict[str, str]:
    bug = outcome.bug
    told = {"bug": bug.id, "source": bug.source, "claim": bug.claim}
    return told | {level.name: _killer(outcome, level) for level in LEVELS}


def _figures(records: Sequence[Mapping[str, str]]) -> dict[str, object]:
    found: dict[str, object] = {
        "bugs_put_in": len(records),
        "of_peers": sum(1 for record in records if record["source"] != OWN),
        "of_our_own": sum(1 for record in records if record["source"] == OWN),
        "killed": sum(1 for record in records if any(_kills(record[level.name]) for level in LEVELS)),
    }
    for level in LEVELS:
        cells = [record[level.name] for record in records]
        tried, killed = len(cells) - cells.count(UNTRIED), sum(map(_kills, cells))
        found[f"level_{level.number}_{level.name}"] = {"tried": tried, "killed": killed}
    return found | {"seeded_bugs": list(records)}


def _kills(cell: str) -> bool:
    return cell not in (UNTRIED, LIVES, ENDLESS)


def _killer(outcome: Outcome, level: Level) -> str:
    """The name of the test that has killed it, as a sentence; of a schedule the promise and the seed."""
    verdict = outcome.verdicts.get(level.name)
    if verdict is None or not verdict.killer:
        return _cell(outcome, level)
    test = verdict.killer.rpartition("::")[2].partition("[")[0].removeprefix("test_")
    return test.replace("_", " ").replace("-", " ")


def _cell(outcome: Outcome, level: Level) -> str:
    verdict = outcome.verdicts.get(level.name)
    if verdict is None:
        return UNTRIED
    if verdict.endless:
        return ENDLESS
    return KILLED if verdict.killer else LIVES


def _short(test: str) -> str:
    return test.removeprefix("tests/")

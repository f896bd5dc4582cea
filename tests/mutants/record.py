"""What came of the trials: a table for the terminal, and the figures that the page on reliability is made from."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from .bugs import OWN, ROOT, Bug
from .levels import LEVELS, Level
from .trial import Verdict

RESULTS = ROOT / "tests" / "faults" / "results" / "mutants.toml"
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


def kept(outcomes: Sequence[Outcome], known: Iterable[str], command: str, day: date, path: Path = RESULTS) -> None:
    """Keep the figures as TOML: those of these outcomes, and what is known of other levels and bugs as it was."""
    before = tomllib.loads(path.read_text())["seeded_bugs"] if path.exists() else []
    records = {record["bug"]: record for record in before}
    for outcome in outcomes:
        fresh = _record(outcome)
        old = records.get(outcome.bug.id, {})
        records[outcome.bug.id] = {key: old.get(key, word) if word == UNTRIED else word for key, word in fresh.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(_toml([records[name] for name in known if name in records], command, day)) + "\n")


def _record(outcome: Outcome) -> dict[str, str]:
    bug = outcome.bug
    told = {"bug": bug.id, "source": bug.source, "claim": bug.claim}
    return told | {level.name: _killer(outcome, level) for level in LEVELS}


def _toml(records: Sequence[Mapping[str, str]], command: str, day: date) -> Iterator[str]:
    killed = [record for record in records if any(_kills(record[level.name]) for level in LEVELS)]
    yield f"command = {json.dumps(command)}"
    yield f"date = {day.isoformat()}"
    yield f"bugs_put_in = {len(records)}"
    yield f"of_peers = {sum(1 for record in records if record['source'] != OWN)}"
    yield f"of_our_own = {sum(1 for record in records if record['source'] == OWN)}"
    yield f"killed = {len(killed)}"
    for level in LEVELS:
        cells = [record[level.name] for record in records]
        yield f"\n[level_{level.number}_{level.name}]"
        yield f"tried = {len(cells) - cells.count(UNTRIED)}"
        yield f"killed = {sum(map(_kills, cells))}"
    for record in records:
        yield "\n[[seeded_bugs]]"
        yield from (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in record.items())


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

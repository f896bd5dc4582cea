"""A schedule is data: what happens, how long after what came before, and to whom; printed it can be pasted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """Something happens `after` seconds; `what` is a word of the drawing, `how` the rest of the sentence.

    `which` picks one among those to whom it can happen then: the first for 0, and again the first when it is past the
    last.
    """

    after: float
    what: str
    which: int = 0
    how: Any = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """What happens to a cluster with so many operators; `seed` draws what is not said, as how long answers take.

    With `finish` those who decide succeed in the end; otherwise the jobs that are left go on running. `gang` names a
    gang scheduler, and `mpi` is the version of MPIJob that the server serves.
    """

    seed: int
    steps: tuple[Step, ...]
    operators: int = 1
    finish: bool = False
    gang: str = ""
    mpi: str = "v1"


def literal(schedule: Schedule) -> str:
    """The schedule as Python, fields at their default left out."""
    steps = "".join(f"        {_value(step)},\n" for step in schedule.steps)
    rest = "".join(f"    {part},\n" for part in _parts(schedule) if not part.startswith("steps="))
    return f"Schedule(\n{rest}    steps=(\n{steps}    ),\n)"


def _value(found: Any) -> str:
    if is_dataclass(found) and not isinstance(found, type):
        return f"{type(found).__name__}({', '.join(_parts(found))})"
    return repr(found)


def _parts(found: Any) -> Iterator[str]:
    for field in fields(found):
        value = getattr(found, field.name)
        if value != field.default:
            yield f"{field.name}={_value(value)}"

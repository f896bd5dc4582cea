"""Tables that are generated from the code: the rules, the failure classes, the flags of the operator."""

from __future__ import annotations

import click

from trainshed.cli.operator import operator
from trainshed.plan import failures
from trainshed.plan.rules import RULES
from trainshed.trainjob import losses as conversions

from .pictures import sentence

#: By failure class, whether a failure counts and is retried; docs/failures.md has the same with every reason.
FATES = {
    failures.APPLICATION: ("yes", "as `restartPolicy` says"),
    failures.INFRASTRUCTURE: ("no", "yes, after a back-off"),
    failures.DISRUPTION: (
        "no",
        "yes, the first one at once, unless `trainshed.dev/on-disruption` is `Fail`",
    ),
    failures.CASCADING: ("no", "together with its root cause"),
}
#: Frequent reasons, which the table lists.
KNOWN = (
    *("Error", "OOMKilled", "StartError", "UnexpectedAdmissionError", "NodeAffinity", "ContainerStatusUnknown"),
    *("Evicted", "EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager"),
)


def rules(_of: str = "") -> str:
    """Return the table of the rules, in order."""
    rows = [f"| {place} | `{rule.__name__}` | {sentence(rule)} |" for place, rule in enumerate(RULES, 1)]
    return "\n".join(("| | rule | when it applies, and what it does |", "|---|---|---|", *rows))


def classes(_of: str = "") -> str:
    """Return the table of the failure classes, with some of their reasons."""
    assert set(FATES) == {*failures.CLASSES.values(), failures.CASCADING}, "a class is missing in FATES"
    head = ("| class | such as | counts against `backoffLimit` | retried |", "|---|---|---|---|")
    return "\n".join((*head, *(f"| `{name}` | {_such(name)} | {' | '.join(fate)} |" for name, fate in FATES.items())))


def losses(of: str) -> str:
    """Return the table of what a conversion in a direction, such as TO_TRAINJOB, does not carry over."""
    rows = sorted(getattr(conversions, of).values(), key=lambda row: not row.serious)
    lines = (f"| {'lost' if row.serious else 'differs'} | `{row.field}` | {row.what} | {row.advice} |" for row in rows)
    return "\n".join(("| | field | what becomes of it | what to do |", "|---|---|---|---|", *lines))


def flags(_of: str = "") -> str:
    """Return the table of all flags that --help shows, with their defaults."""
    options = (option for option in operator.params if isinstance(option, click.Option) and not option.hidden)
    rows = (f"| {_spelt(option)} | {_default(option)} | {option.help or ''} |" for option in options)
    return "\n".join(("| flag | default | |", "|---|---|---|", *rows))


def _spelt(option: click.Option) -> str:
    return ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))


def _default(option: click.Option) -> str:
    if option.is_flag:
        return "on" if option.default is True else "off"
    return f"`{option.default}`" if isinstance(option.default, str | int | float) and option.default != "" else ""


def _such(name: str) -> str:
    reasons = [reason for reason, kind in failures.CLASSES.items() if kind == name]
    shown = [reason for reason in KNOWN if reason in reasons]
    more = len(reasons) - len(shown)
    listed = ", ".join(f"`{reason}`" for reason in shown)
    return f"{listed} and {more} more" if reasons else "a replica that fails within seconds after another one"

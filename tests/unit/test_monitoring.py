"""The metrics page, the alerts and the dashboard use exactly the metrics that are served."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from trainshed.controller.metrics import COUNTERS, FAILURE_CLASSES, LABELS, STATES
from trainshed.frameworks import FRAMEWORKS

from .metric_reader import families, labels

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "charts" / "trainshed" / "files"
PAGE = (ROOT / "docs" / "metrics.md").read_text()
RULES = yaml.safe_load((FILES / "alerts.yaml").read_text())
DASHBOARD = json.loads((FILES / "dashboard.json").read_text())
#: Words of an expression that are not metrics; braces, brackets and `by (…)` are removed before.
WORDS = frozenset(
    ("absent", "max", "min", "sum", "increase", "rate", "histogram_quantile", "vector", "and", "or", "on")
)
#: Labels that Prometheus adds.
OUTSIDE = frozenset(("pod", "namespace", "job", "instance"))


def queries() -> Iterator[str]:
    """Yield all expressions of the dashboard, including panels in rows."""
    waiting = list(DASHBOARD["panels"])
    while waiting:
        panel = waiting.pop()
        waiting += panel.get("panels", ())
        yield from (target["expr"] for target in panel.get("targets", ()))


EXPRESSIONS = sorted({*(rule["expr"] for rule in RULES), *queries()})


def asked(expression: str) -> set[str]:
    """Return the names of the metrics in an expression."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|(by|without|on) ?\([^)]*\)", " ", expression)
    return set(re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]+", bare)) - WORDS


def test_the_page_lists_exactly_the_served_metrics():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `") and not line.startswith("| `Trainshed")]
    listed = {match[1]: match[2] for row in rows if (match := re.match(r"\| `(\w+)` \|(?:([^|]*)\|)?.*", row))}
    assert sorted(listed) == sorted(families())
    known, v1s = labels(), {f"{name}_total" for name in COUNTERS}
    for name, words in listed.items():
        family = families()[name]
        served = set.union(*(known[sample.name] for sample in family.samples)) - {"le"}
        said = list(LABELS) if name in v1s else re.findall(r"`(\w+)`", words)
        assert sorted(said) == sorted(served), name


def test_the_page_lists_every_framework_state_and_class():
    for word in (*(framework.label for framework in FRAMEWORKS), *STATES, *FAILURE_CLASSES):
        assert f"`{word}`" in PAGE, word


def test_the_page_explains_exactly_the_alerts():
    assert sorted(re.findall(r"^\| `(Trainshed\w+)`", PAGE, re.MULTILINE)) == sorted(rule["alert"] for rule in RULES)
    assert len(RULES) >= 5


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_alerts_say_how_bad_it_is_what_it_is_and_what_to_do(rule: dict):
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    notes = rule["annotations"]
    assert notes["summary"].endswith(".")
    assert len(notes["description"]) > len(notes["summary"]) / 2
    path, _, anchor = notes["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.MULTILINE)
    assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_alerts_and_panels_use_served_metrics_and_labels(expression: str):
    found = labels()
    wanted = asked(expression)
    assert wanted
    assert wanted <= found.keys()
    chosen = set(re.findall(r"(\w+)[=!]~?\"", expression))
    grouped = {
        word for words in re.findall(r"(?:by|without|on) ?\(([^)]*)\)", expression) for word in words.split(", ")
    }
    assert chosen | grouped <= set.union(*(found[name] for name in wanted)) | OUTSIDE


def test_the_expressions_of_the_page_use_served_metrics():
    text, _, _ = PAGE.partition("\n## Jobs\n")
    named = set(re.findall(r"\b(?:trainshed|training_operator|process)_[a-z_]+\b", text))
    assert len(named) >= 4
    assert named <= labels().keys()


def test_queried_states_exist():
    states = re.findall(r'state[=!]~?"([\w|]+)"', " ".join(EXPRESSIONS))
    assert states
    assert {state for words in states for state in words.split("|")} <= set(STATES)


def test_the_dashboard_has_its_panels():
    assert len(list(queries())) >= 10
    asked_for = set.union(*(asked(query) for query in queries()))
    assert {"trainshed_jobs", "trainshed_leader", "trainshed_workqueue_depth"} <= asked_for

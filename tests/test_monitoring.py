"""The page on metrics and the alerts speak of what is served, and of all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from make import a_job, seen
from trainshed.api.status import Status
from trainshed.frameworks import FRAMEWORKS
from trainshed.loop.metrics import STATES, Metrics

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "metrics.md").read_text()
RULES = [
    rule
    for document in yaml.safe_load_all((ROOT / "manifests" / "monitoring.yaml").read_text())
    if document["kind"] == "PrometheusRule"
    for group in document["spec"]["groups"]
    for rule in group["rules"]
]
#: What stands in an expression and is not a metric: functions, keywords, and what is in braces, brackets or `by (…)`.
WORDS = frozenset(("absent", "max", "sum", "increase", "rate", "histogram_quantile", "and"))


def families() -> dict[str, str]:
    """The types of all metrics of ours, by the name that is asked for."""
    found = {}
    for family in Metrics().registry.collect():
        if not family.name.startswith("process_"):
            found[family.name + ("_total" if family.type == "counter" else "")] = family.type
    return found


def asked(expression: str) -> set[str]:
    """The metrics in an expression."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|by \([^)]*\)", " ", expression)
    return set(re.findall(r"[a-z_]{2,}", bare)) - WORDS


def labels() -> dict[str, set[str]]:
    """The labels of each metric of ours that has any."""
    metrics = Metrics()
    metrics.stored(seen(a_job(worker=1)), Status())
    metrics.failed(ValueError())
    metrics.requested("GET", "pods", 200)
    metrics.ages.labels("pods").set(1)
    metrics.states({}, ("tensorflow",))
    return {sample.name: set(sample.labels) for family in metrics.registry.collect() for sample in family.samples}


def test_every_metric_stands_on_the_page_and_no_other():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `") and not line.startswith("| `Trainshed")]
    told = [re.match(r"\| `(\w+)`", row).group(1) for row in rows]
    assert sorted(told) == sorted(families())


def test_the_page_names_every_framework_and_every_state():
    for word in (*(framework.label for framework in FRAMEWORKS), *STATES):
        assert f"`{word}`" in PAGE, word


def test_every_alert_is_explained_and_no_other():
    assert sorted(re.findall(r"^\| `(Trainshed\w+)`", PAGE, re.MULTILINE)) == sorted(rule["alert"] for rule in RULES)
    assert len(RULES) >= 5


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_alerts_ask_for_what_is_served(rule: dict):
    known = families()
    names = known.keys() | {f"{name}_bucket" for name, kind in known.items() if kind == "histogram"}
    wanted = asked(rule["expr"])
    assert wanted
    assert wanted <= names
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["summary"]


def test_alerts_sum_and_choose_by_labels_that_there_are():
    from_outside, found = {"pod"}, labels()
    for rule in RULES:
        chosen = set(re.findall(r"(\w+)[=!]~?\"", rule["expr"]))
        grouped = {word for words in re.findall(r"by \(([^)]*)\)", rule["expr"]) for word in words.split(", ")}
        known = set.union(*(found[name] for name in asked(rule["expr"])))
        assert chosen | grouped <= known | from_outside, rule["alert"]
    states = re.findall(r'state="(\w+)"', " ".join(rule["expr"] for rule in RULES))
    assert states
    assert set(states) <= set(STATES)

"""/metrics is well-formed by the rules of `promtool check metrics` (Prometheus' promlint)."""

from __future__ import annotations

import re

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from .metric_reader import all_metrics

#: Units and the base units that promlint requires instead.
UNITS = {
    "minutes": "seconds",
    "hours": "seconds",
    "days": "seconds",
    "weeks": "seconds",
    "milliseconds": "seconds",
    "microseconds": "seconds",
    "nanoseconds": "seconds",
    "bits": "bytes",
    "kilobytes": "bytes",
    "megabytes": "bytes",
    "gigabytes": "bytes",
    "kibibytes": "bytes",
    "mebibytes": "bytes",
    "gibibytes": "bytes",
    "percent": "ratio",
}
ABBREVIATIONS = frozenset(
    ("s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d")  # codespell:ignore us
)
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
#: Names that may break a rule, with the reason; none of v1's names breaks one.
EXCEPTIONS: dict[str, str] = {}

TEXT = all_metrics().text().decode()
FAMILIES = list(text_string_to_metric_families(TEXT))


def problems(name: str, family: Metric) -> list[str]:
    """Return the rules that a family with this full name breaks."""
    parts = name.split("_")
    labels = {label for sample in family.samples for label in sample.labels}
    if family.type == "histogram":
        labels.discard("le")
    found = [
        (not family.documentation, "no help"),
        (any(part in UNITS for part in parts), "a unit that is not a base unit"),
        ((family.type == "counter") != name.endswith("_total"), "only counters must end in _total"),
        (name.endswith(("_bucket", "_count", "_sum", "_info_total")), "a reserved suffix"),
        (bool(labels & {"le", "quantile"}), "a reserved label"),
        (any(f"_{kind}_" in f"_{name}_" for kind in TYPES), "the type in the name"),
        (":" in name, "colons are reserved for recording rules"),
        (bool(re.search("[a-z][A-Z]", " ".join((name, *labels)))), "camelCase"),
        (any(part in ABBREVIATIONS for part in parts), "an abbreviated unit"),
    ]
    return [words for wrong, words in found if wrong]


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_names_and_labels_pass_the_rules_of_promtool(family: Metric):
    name = family.name + ("_total" if family.type == "counter" else "")
    wrong = problems(name, family)
    assert bool(wrong) == (name in EXCEPTIONS), wrong


@pytest.mark.parametrize(
    ("name", "kind", "documentation"),
    [
        ("jobs_created", "counter", "m"),
        ("jobs_total", "gauge", "m"),
        ("wait_milliseconds", "gauge", "m"),
        ("wait_ms", "gauge", "m"),
        ("jobs_count", "gauge", "m"),
        ("jobs_gauge", "gauge", "m"),
        ("jobs:rate", "gauge", "m"),
        ("jobsCreated", "gauge", "m"),
        ("jobs", "gauge", ""),
    ],
)
def test_the_rules_find_what_promtool_reports(name: str, kind: str, documentation: str):
    assert problems(name, Metric(name, documentation, kind))


def test_every_family_has_one_help_and_type_before_its_samples():
    families: dict[str, list[str]] = {"HELP": [], "TYPE": []}
    for line in TEXT.splitlines():
        word = re.match(r"# (HELP|TYPE) (\S+) \S", line)
        if word:
            families[word[1]].append(word[2])
        else:
            assert line.startswith(families["TYPE"][-1]), "a sample outside its family"
    assert families["HELP"] == families["TYPE"]
    assert len(set(families["HELP"])) == len(families["HELP"])
    assert TEXT.endswith("\n")


def test_no_series_is_exposed_twice():
    series = [line.rpartition(" ")[0] for line in TEXT.splitlines() if not line.startswith("#")]
    assert len(set(series)) == len(series) > 50

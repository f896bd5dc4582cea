"""The values of the chart: each is described and used, and the files generated from the schema are up to date."""

from __future__ import annotations

import json
import re

import pytest

from .values import CHART, README, VALUES, Value, readme, schema, values, values_file

ALL = tuple(values(schema()))
TEMPLATES = "\n".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
#: Values that are copied as YAML; Kubernetes defines their content.
OPEN = frozenset(("affinity", "resources", "global"))


@pytest.mark.parametrize("value", ALL, ids=[".".join(value.path) for value in ALL])
def test_each_value_is_described_in_sentences(value: Value):
    assert value.description.endswith(".")
    assert value.description[0] == "`" or value.description[0].isupper()


@pytest.mark.parametrize("value", [value for value in ALL if value.group], ids=str)
def test_a_group_takes_no_other_values(value: Value):
    assert value.schema["additionalProperties"] is False


def test_nothing_else_is_taken():
    assert schema()["additionalProperties"] is False


def used() -> set[tuple[str, ...]]:
    """Return the paths of values in the templates, including the fields used inside `with` blocks."""
    paths = {tuple(path.split(".")) for path in re.findall(r"\.Values\.([\w.]+)", TEMPLATES)}
    inner = re.findall(r"{{-? with (?:\$|)\.Values\.([\w.]+) -?}}(.*?)\n{{-? ?end", TEMPLATES, re.DOTALL)
    return paths | {(*group.split("."), name) for group, body in inner for name in re.findall(r" \.(\w+)", body)}


def test_templates_ask_for_values_that_there_are():
    known = {value.path for value in ALL}
    asked = {tuple(path.split(".")) for path in re.findall(r"\.Values\.([\w.]+)", TEMPLATES)}
    assert asked - known == set()


def test_each_value_is_used():
    kinds = {value.path for value in ALL if value.path[0] == "kinds"}  # looked up by the name of the kind
    leaves = {value.path for value in ALL if not value.group} - kinds
    assert {path for path in leaves - used() if path[0] not in OPEN} == set()


def test_the_files_made_from_the_schema_are_up_to_date():
    assert VALUES.read_text() == values_file(), "values.yaml is stale: make manifests"
    assert README.read_text() == readme(), "the chart's README is stale: make manifests"


def test_the_dashboard_is_json():
    assert json.loads((CHART / "files" / "dashboard.json").read_text())["title"] == "Trainshed"

"""The bill of materials names all that is in the operator's image, and nothing is in it that should not be."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import sbom as bom

ROOT = Path(__file__).resolve().parent.parent
BILL = bom.bill()
PINS = tuple(bom.pins(bom.PINNED.read_text()))


def test_every_pin_is_a_component_with_all_of_its_hashes():
    assert len(PINS) == bom.PINNED.read_text().count("==") > 20
    for pin, component in zip(PINS, BILL["components"], strict=True):
        assert component["purl"] == component["bom-ref"] == f"pkg:pypi/{pin.name}@{pin.version}"
        hashes = [found["content"] for file in component["externalReferences"] for found in file["hashes"]]
        assert hashes == sorted(set(hashes))
        assert hashes
    told = sum(len(component["externalReferences"]) for component in BILL["components"])
    assert told == bom.PINNED.read_text().count("--hash=sha256:")


def test_every_component_has_a_licence():
    assert [component["name"] for component in BILL["components"] if "licenses" not in component] == []


def test_every_component_is_needed_by_something_and_nothing_is_needed_that_is_not_there():
    known = {component["bom-ref"] for component in BILL["components"]}
    needs = {entry["ref"]: set(entry["dependsOn"]) for entry in BILL["dependencies"]}
    assert set.union(*needs.values()) == known
    assert needs.keys() - known == {BILL["metadata"]["component"]["bom-ref"]}
    assert len(needs) == len(BILL["dependencies"])


def test_the_form_is_what_readers_of_cyclonedx_look_for():
    assert (BILL["bomFormat"], BILL["specVersion"], BILL["version"]) == ("CycloneDX", "1.6", 1)
    assert BILL["metadata"]["component"]["type"] == "application"


def test_neither_the_kubernetes_client_nor_a_tool_that_builds_is_in_the_image():
    names = {pin.name for pin in PINS}
    assert not names & {"kubernetes", "kubernetes-asyncio", "pip", "setuptools", "wheel", "pytest"}
    assert "kopf" in names


def test_the_image_is_not_made_with_what_should_not_be_in_it():
    text = (ROOT / "Dockerfile").read_text()
    assert 'for n in ("pip", "setuptools", "wheel", "ensurepip", "kubernetes")' in text
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert bases == ["${BASE}", "${BASE}"], "one argument pins both stages"
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", text, re.MULTILINE)


def test_a_pin_that_is_not_what_is_installed_makes_no_bill(monkeypatch, tmp_path):
    other = tmp_path / "operator.txt"
    other.write_text("kopf==0.0.1 \\\n    --hash=sha256:" + "0" * 64 + "\n")
    monkeypatch.setattr(bom, "PINNED", other)
    with pytest.raises(PackageNotFoundError):
        bom.bill()

"""`python -m sbom FILE`: writes what the operator's image is made of as a CycloneDX bill of materials (spec 1.6, JSON).

Versions and hashes come from constraints/operator.txt, dependencies and licences from the installed packages.
The same pins produce the same file, byte for byte.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PINNED = ROOT / "constraints" / "operator.txt"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Pin:
    """A package at a version, and the SHA-256 of each file that may be installed as it."""

    name: str
    version: str
    hashes: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its package URL (github.com/package-url/purl-spec)."""
        return f"pkg:pypi/{self.name}@{self.version}"


def pins(text: str) -> Iterator[Pin]:
    """The packages of a constraints file."""
    for entry in re.split(r"\n(?=[A-Za-z0-9])", text):
        if found := PIN.match(entry):
            yield Pin(_normal(found[1]), found[2], tuple(sorted(HASH.findall(entry))))


def bill() -> dict[str, Any]:
    """The bill of materials; raises `PackageNotFoundError` for a pin that is not installed as it is pinned."""
    known = {pin.name: pin for pin in pins(PINNED.read_text(encoding="utf-8"))}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = f"pkg:pypi/{project['name']}@{project['version']}"
    direct = sorted({known[name].purl for text in project["dependencies"] if (name := _required(text)) in known})
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _described(project, own)},
        "components": [_component(pin) for pin in known.values()],
        "dependencies": [
            {"ref": own, "dependsOn": direct},
            *({"ref": pin.purl, "dependsOn": _needs(pin, known)} for pin in known.values()),
        ],
    }


def _described(project: dict[str, Any], own: str) -> dict[str, Any]:
    licence = [{"license": {"id": project["license"]}}]
    head = {"type": "application", "bom-ref": own, "name": project["name"], "version": project["version"]}
    return {**head, "description": project["description"], "licenses": licence, "purl": own}


def _component(pin: Pin) -> dict[str, Any]:
    # Each hash is another file's: those for other machines and for other versions of Python are among them.
    hashes = [{"alg": "SHA-256", "content": content} for content in pin.hashes]
    files = [{"type": "distribution", "url": pin.purl, "hashes": [found]} for found in hashes]
    licence = _licence(_installed(pin))
    head = {"type": "library", "bom-ref": pin.purl, "name": pin.name, "version": pin.version, "purl": pin.purl}
    return {**head, **({"licenses": [licence]} if licence else {}), "externalReferences": files}


def _installed(pin: Pin) -> Distribution:
    found = distribution(pin.name)
    if found.version != pin.version:
        raise PackageNotFoundError(f"{pin.name} {pin.version}; {found.version} is installed: make venv")
    return found


def _licence(found: Distribution) -> dict[str, Any] | None:
    """An SPDX expression where the package has one, or else its own word for it."""
    if expression := found.metadata.get("License-Expression"):
        return {"expression": expression}
    words = (found.metadata.get("License") or "").strip()
    classifiers = [text for text in found.metadata.get_all("Classifier") or () if text.startswith("License ::")]
    name = words if words and "\n" not in words else classifiers[-1].rpartition(" :: ")[2] if classifiers else ""
    return {"license": {"name": name}} if name else None


def _needs(pin: Pin, known: dict[str, Pin]) -> list[str]:
    """Which of the others it asks for. Extras are left out: what they bring is pinned for others' sake."""
    wanted = (text for text in _installed(pin).requires or () if "extra ==" not in text)
    return sorted({known[name].purl for text in wanted if (name := _required(text)) in known})


def _required(text: str) -> str:
    found = NAME.match(text)
    return _normal(found[0]) if found else ""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(bill(), indent=2) + "\n", encoding="utf-8")
    print(f"{target}: {len(bill()['components'])} packages")

"""kube-score, and the rules of kube-linter and Polaris, on what the chart becomes: all, but for named exceptions."""

from __future__ import annotations

import json
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

from charts import overlays, snapshots
from charts.rendering import Document, Release

from .rendered import KINDS, Rendered
from .rules import KUBE_LINTER, POLARIS

pytestmark = pytest.mark.usefixtures("helm")
EXCEPTIONS = tomllib.loads(Path(__file__).with_name("linters.toml").read_text())["exception"]
OPTIONS = ("gangScheduler=volcano", "trackResults=true", "priorityClassName=system-cluster-critical")
OPTIONS += ("podAdmissionPolicy.enabled=true", "leaseFlowSchema.enabled=true")
MONITORED = tuple(f"monitoring.{what}.enabled=true" for what in ("serviceMonitor", "alerts", "dashboard"))
#: By name: a file of values, or none, and single values.
VALUES: dict[str, tuple[Path | None, tuple[str, ...]]] = {
    "usual": (None, ()),
    "all-options": (None, (*OPTIONS, *MONITORED)),
    "newer-mpi": (None, ("mpi.version=v2beta1",)),
    "no-mpi": (None, ("kinds.mpijob=false",)),
    "one-namespace": (None, ("namespaces={a}",)),
    "otherwise": (snapshots.FOLDER / "otherwise.values.yaml", ()),
    "single": (snapshots.FOLDER / "single.values.yaml", ()),
    "v1": (overlays.MANIFESTS / "overlays" / "v1" / "values.yaml", ()),
}
#: Those that kube-score leaves out unless they are asked for. It could ask as well that requests are as high as limits:
#: but of two replicas one does nothing, and it would hold what it needs to take over.
MORE = ("container-seccomp-profile", "container-ports-check")


@cache
def rendered(name: str) -> tuple[Document, ...]:
    """The objects for a set of values."""
    file, sets = VALUES[name]
    return tuple(Release().documents(file, "crds.install=false", *sets))


def excepted(linter: str, name: str) -> set[str]:
    """The rules of a linter that need not hold for these values."""
    mine = (one for one in EXCEPTIONS if one["linter"] == linter)
    return {one["rule"] for one in mine if name in one.get("values", VALUES)}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(("linter", "rules"), [("kube-linter", KUBE_LINTER), ("polaris", POLARIS)])
def test_rules_hold_but_for_named_exceptions(linter: str, rules: dict, name: str):
    found = Rendered(rendered(name))
    broken = {rule for rule, holds in rules.items() if not holds(found)}
    assert broken == excepted(linter, name) & rules.keys()


@pytest.mark.parametrize("name", VALUES)
def test_kube_score_finds_nothing_but_named_exceptions(kube_score: str, name: str):
    assert scored(kube_score, rendered(name)) == excepted("kube-score", name)


def scored(program: str, documents: tuple[Document, ...]) -> set[str]:
    """What kube-score does not like, critical or not."""
    asked = [word for test in MORE for word in ("--enable-optional-test", test)]
    command = [program, "score", "--output-format=json", *asked, "-"]
    done = subprocess.run(command, input=yaml.safe_dump_all(documents), capture_output=True, text=True, check=False)
    checks = [check for item in json.loads(done.stdout) for check in item["checks"]]
    assert len(checks) > 20, done.stderr
    return {check["check"]["id"] for check in checks if not check["skipped"] and check["grade"] < 10}


def test_each_exception_names_a_rule_and_a_reason():
    for one in EXCEPTIONS:
        assert one["why"]
        assert one["linter"] == "kube-score" or one["rule"] in KUBE_LINTER | POLARIS
        assert set(one.get("values", ())) <= VALUES.keys()


@pytest.mark.parametrize("name", VALUES)
def test_the_rules_cover_all_kinds_of_objects(name: str):
    assert {document["kind"] for document in rendered(name)} <= KINDS


@pytest.mark.parametrize(
    ("rule", "path", "value"),
    [
        ("run-as-non-root", ("securityContext", "runAsNonRoot"), False),
        ("host-network", ("hostNetwork",), True),
        ("sensitive-host-mounts", ("volumes",), [{"name": "x", "hostPath": {"path": "/"}}]),
        ("latest-tag", ("containers", 0, "image"), "ghcr.io/a/b:latest"),
        ("unset-memory-requirements", ("containers", 0, "resources"), {}),
        ("privilege-escalation-container", ("containers", 0, "securityContext"), {"capabilities": {}}),
        ("no-liveness-probe", ("containers", 0, "livenessProbe"), None),
    ],
)
def test_a_less_secure_pod_is_found(rule: str, path: tuple, value: object):
    documents = json.loads(json.dumps(rendered("usual")))
    spec = Rendered(tuple(documents)).pod
    *way, last = path
    for step in way:
        spec = spec[step]
    spec.pop(last, None) if value is None else spec.__setitem__(last, value)
    assert not KUBE_LINTER[rule](Rendered(tuple(documents)))

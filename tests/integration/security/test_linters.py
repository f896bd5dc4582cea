"""kube-score on the rendered chart: every check passes except for named exceptions.

Pod security is checked by the API server itself: tests/integration/test_installation.py. docs/decisions/chart-tests.md
has the other linters.
"""

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
    "kubeflow": (overlays.MANIFESTS / "overlays" / "kubeflow" / "values.yaml", ()),
}
#: Optional checks. The one that requests are as high as limits is left out: of two replicas one is idle, and would
#: reserve the memory that it needs as a leader.
MORE = ("container-seccomp-profile", "container-ports-check")


@cache
def rendered(name: str) -> tuple[Document, ...]:
    """Return the objects for a set of values."""
    file, sets = VALUES[name]
    return tuple(Release().documents(file, "crds.install=false", *sets))


@pytest.mark.parametrize("name", VALUES)
def test_kube_score_finds_nothing_but_named_exceptions(kube_score: str, name: str):
    assert failed_checks(kube_score, rendered(name)) == {
        one["rule"] for one in EXCEPTIONS if name in one.get("values", VALUES)
    }


def failed_checks(program: str, documents: tuple[Document, ...]) -> set[str]:
    """Return the checks that fail or warn."""
    asked = [word for test in MORE for word in ("--enable-optional-test", test)]
    command = [program, "score", "--output-format=json", *asked, "-"]
    done = subprocess.run(command, input=yaml.safe_dump_all(documents), capture_output=True, text=True, check=False)
    checks = [check for item in json.loads(done.stdout) for check in item["checks"]]
    assert len(checks) > 20, done.stderr
    return {check["check"]["id"] for check in checks if not check["skipped"] and check["grade"] < 10}


def test_each_exception_has_a_reason():
    for one in EXCEPTIONS:
        assert one["why"]
        assert set(one.get("values", ())) <= VALUES.keys()

"""The end-to-end tests in the SDK of training-operator v1 pass unmodified, with Volcano and without."""

from __future__ import annotations

import os
import subprocess
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from e2e.conftest import new_namespace
from support.kubectl import Kubectl
from testbed import kind, sdk_suite
from testbed.images import KUBECTL_DELIVERY

from . import deployments

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-sdk" / "bin" / "python"
RESULTS = ROOT / "tests" / "conformance" / "sdk_suite.toml"
INSTALLED, SCHEDULER = deployments.volcano, "volcano"
#: Nine tests run without a gang scheduler, six with one.
PLAIN, GANGS = 9, 6
#: The images of the suite are `latest`, which kubelets pull, and no registry has the stand-ins.
USE_LOADED_IMAGES = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: use-loaded-images}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration:
        expression: >-
          Object{spec: Object.spec{containers: object.spec.containers.map(one,
            Object.spec.containers{name: one.name, imagePullPolicy: "IfNotPresent"})}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: use-loaded-images}
spec:
  policyName: use-loaded-images
  matchResources: {namespaceSelector: {matchLabels: {sdk-suite: "true"}}}
"""


@pytest.fixture(scope="module")
def images(kubeconfig: str) -> None:
    """The nodes have the image with kubectl, and the stand-ins where no registry has the images."""
    kind.load([KUBECTL_DELIVERY])
    if kind.without_registry():
        kind.load_images(*sdk_suite.stand_ins())


@pytest.fixture
def suite(kubeconfig: str, images: None, tmp_path: Path) -> Iterator[Kubectl]:
    """kubectl in a namespace whose pods use the stand-ins."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(USE_LOADED_IMAGES)
    with new_namespace(kubeconfig) as run:
        run("label", "namespace", run.command[-1], "sdk-suite=true")
        if kind.without_registry():
            run("apply", "-f", str(policy))
        yield run
        run("delete", "--ignore-not-found", "-f", str(policy))


def test_the_nine_tests_without_a_gang_scheduler_pass(suite: Kubectl, kubeconfig: str, tmp_path: Path) -> None:
    results = run_suite(suite, kubeconfig, tmp_path, "none")
    assert list(results.values()) == ["passed"] * PLAIN, results


@pytest.mark.usefixtures("scheduler")
def test_the_six_tests_of_gangs_pass_with_volcano(suite: Kubectl, kubeconfig: str, tmp_path: Path) -> None:
    results = run_suite(suite, kubeconfig, tmp_path, "volcano")
    assert list(results.values()) == ["passed"] * GANGS, results


def run_suite(suite: Kubectl, kubeconfig: str, folder: Path, scheduler: str) -> dict[str, str]:
    """Run the SDK's tests for one scheduler, and keep their outcomes; those that are for another are left out."""
    assert PYTHON.exists(), "make venv-sdk"
    (tests,) = PYTHON.parents[1].glob("lib/python3*/site-packages/test/e2e")
    report = folder / "report.xml"
    settings = folder / "pytest.ini"
    settings.write_text("[pytest]\n")  # without it pytest would read the settings and the conftest.py of this checkout
    command = [PYTHON, "-m", "pytest", "-c", settings, f"--confcutdir={tests.parent}", "-p", "no:cacheprovider"]
    command += [f"--junitxml={report}"]
    environment = os.environ | {"KUBECONFIG": kubeconfig, "GANG_SCHEDULER_NAME": scheduler}
    environment.pop("PYTHONPATH", None)
    subprocess.run(
        [str(word) for word in (*command, "--namespace", suite.command[-1], tests)],
        check=False,
        env=environment,
        cwd=folder,
        timeout=3600,
    )
    results = {}
    for case in ET.parse(report).iter("testcase"):
        if case.find("skipped") is None:
            failed = case.find("failure") is not None or case.find("error") is not None
            name = f"{case.attrib['classname'].rpartition('.')[2]}::{case.attrib['name']}"
            results[name] = "FAILED" if failed else "passed"
    keep(scheduler, results)
    return results


def keep(scheduler: str, results: dict[str, str]) -> None:
    """Write the outcomes to the file from which docs/conformance.md is made."""
    known = tomllib.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(tomli_w.dumps(known | {scheduler: results}))

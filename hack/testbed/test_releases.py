"""Tests of which release of Kubernetes control planes have, and of the module that it is built from."""

from __future__ import annotations

import pytest

from testbed.releases import OLDER, minor_version, module_text, program
from testbed.steps import StepFailed

KUBERNETES = """module k8s.io/kubernetes

go 1.22.0

require (
	github.com/spf13/cobra v1.7.0
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.120.1
)

require k8s.io/kms v0.0.0 // indirect

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kms => ./staging/src/k8s.io/kms
)
"""
ETCD = """module go.etcd.io/etcd/server/v3

require go.etcd.io/etcd/api/v3 v3.5.15

replace go.etcd.io/etcd => ./FORBIDDEN_DEPENDENCY

replace go.etcd.io/etcd/api/v3 => ../api
"""


def test_a_module_for_a_release_requires_what_it_was_released_with() -> None:
    text = module_text(KUBERNETES, "k8s.io/kubernetes", "v1.30.14")
    assert text.splitlines()[0] == "module trainshed.dev/bed/release"
    assert "\tgithub.com/spf13/cobra v1.7.0\n" in text
    assert "./staging" not in text
    assert text.splitlines()[-3:] == [
        "require k8s.io/kubernetes v1.30.14",
        "replace k8s.io/api => k8s.io/api v0.30.14",
        "replace k8s.io/kms => k8s.io/kms v0.30.14",
    ]


def test_folders_that_are_no_part_of_a_module_do_not_replace_modules() -> None:
    text = module_text(ETCD, "go.etcd.io/etcd/server/v3", "v3.5.15")
    assert "=>" not in text
    assert "require go.etcd.io/etcd/api/v3 v3.5.15\n" in text


def test_the_environment_selects_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINSHED_KUBERNETES", raising=False)
    newest = minor_version()
    assert newest not in OLDER
    monkeypatch.setenv("TRAINSHED_KUBERNETES", "1.30")
    assert minor_version() == "1.30"
    monkeypatch.setenv("TRAINSHED_KUBERNETES", "1.2")
    with pytest.raises(StepFailed, match=r"TRAINSHED_KUBERNETES=1\.2 is not one of 1\.30, "):
        program("etcd")

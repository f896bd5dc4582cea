"""Jobs with real containers as gangs of the coscheduling plugin, whose chart is installed on the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from support.gang_scenarios import (
    test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why,
    test_a_gang_that_fits_runs_and_its_group_goes_with_it,
)
from support.gang_schedulers import COSCHEDULING

from .deployments import coscheduling as installed

__all__ = [
    "test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why",
    "test_a_gang_that_fits_runs_and_its_group_goes_with_it",
]

pytestmark = pytest.mark.long
GROUPS = "scheduling.x-k8s.io/v1alpha1"


@pytest.fixture(scope="module")
def scheduler(
    kubeconfig: str,
    operator_with: Callable[[str], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """The scheduler with the plugin on the cluster, and the operator with its flag."""
    folder = tmp_path_factory.mktemp("coscheduling")
    with installed(kubeconfig, folder), operator_with(f"gangScheduler={COSCHEDULING}"):
        yield


@pytest.fixture
def why() -> str:
    return "Unschedulable: 5 of 5 replicas are not running"

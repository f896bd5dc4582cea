"""Jobs with real containers as gangs of the coscheduling plugin, whose chart is installed on the cluster."""

from __future__ import annotations

import pytest

from support.gang_scenarios import (
    test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why,
    test_a_gang_that_fits_runs_and_its_group_goes_with_it,
)
from support.gang_schedulers import COSCHEDULING

from . import deployments

__all__ = [
    "test_a_gang_that_does_not_fit_has_no_pod_on_a_node_and_says_why",
    "test_a_gang_that_fits_runs_and_its_group_goes_with_it",
]

pytestmark = pytest.mark.long
GROUPS = "scheduling.x-k8s.io/v1alpha1"
INSTALLED, SCHEDULER = deployments.coscheduling, COSCHEDULING

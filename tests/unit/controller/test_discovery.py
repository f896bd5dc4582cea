"""Startup waits until the PodGroups of the gang scheduler are known to be served."""

from __future__ import annotations

import logging

import pytest

from support.virtual_time import clock, in_virtual_time
from trainshed.api.objects import COSCHEDULING_GROUPS, KUBERNETES_GROUPS, KUBERNETES_GROUPS_ALPHA, VOLCANO_GROUPS
from trainshed.client import Forbidden, NotFound, TooManyRequests, Unavailable
from trainshed.controller.namespaces import discover_gang_resources


class Guide:
    """Serves these kinds after it has failed with these errors."""

    def __init__(self, *served, errors=()) -> None:
        self.asked = []
        self._served, self._errors = served, list(errors)

    async def serves(self, resource) -> bool:
        self.asked.append(resource)
        if self._errors:
            raise self._errors.pop(0)
        return resource in self._served


def test_without_a_gang_scheduler_nothing_is_discovered():
    guide = Guide()
    in_virtual_time(discover_gang_resources(guide, ""))
    assert guide.asked == []


@pytest.mark.parametrize(("scheduler", "kind"), [("Volcano", VOLCANO_GROUPS), ("mine", COSCHEDULING_GROUPS)])
def test_the_pod_groups_of_the_scheduler_must_be_served(scheduler, kind):
    guide = Guide(kind)
    in_virtual_time(discover_gang_resources(guide, scheduler))
    assert guide.asked == [kind]
    other = {VOLCANO_GROUPS: COSCHEDULING_GROUPS, COSCHEDULING_GROUPS: VOLCANO_GROUPS}[kind]
    said = f"--gang-scheduler-name={scheduler}: the API server does not serve PodGroup in {kind.api_version}"
    with pytest.raises(NotFound, match=said):
        in_virtual_time(discover_gang_resources(Guide(other), scheduler))


@pytest.mark.parametrize(
    ("served", "watched"),
    [
        ((KUBERNETES_GROUPS, KUBERNETES_GROUPS_ALPHA), (KUBERNETES_GROUPS,)),
        ((KUBERNETES_GROUPS_ALPHA,), (KUBERNETES_GROUPS_ALPHA,)),
        ((), (KUBERNETES_GROUPS, KUBERNETES_GROUPS_ALPHA)),
    ],
)
def test_of_the_kinds_of_kubernetes_the_newest_is_watched_or_all_until_one_is_served(served, watched, caplog):
    assert in_virtual_time(discover_gang_resources(Guide(*served), "kubernetes")) == watched
    said = [record.getMessage() for record in caplog.records]
    missing = "the API server does not serve PodGroup in scheduling.k8s.io/v1beta1 or scheduling.k8s.io/v1alpha2"
    expected = f"--gang-scheduler-name=kubernetes: {missing}; no job gets pods until it does"
    assert said == ([] if served else [expected])


def test_discovery_is_retried_without_a_response_and_logged_once(caplog):
    errors = [Unavailable("no connection"), TooManyRequests("later"), Unavailable("no connection")]

    async def waited() -> float:
        begun = clock()
        await discover_gang_resources(Guide(VOLCANO_GROUPS, errors=errors), "volcano")
        return clock() - begun

    assert in_virtual_time(waited()) == 6
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == ["cannot discover scheduling.volcano.sh/v1beta1: no connection"]


def test_a_forbidden_discovery_fails_at_once():
    with pytest.raises(Forbidden):
        in_virtual_time(discover_gang_resources(Guide(errors=[Forbidden("no")]), "volcano"))

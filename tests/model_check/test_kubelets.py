"""All that kubelets may have done to some pods, and nothing that they cannot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulation.stage import NAMESPACE, Stage

from .kubelets import Kubelets

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage(replicas=0)
    for name in ("a-master", "b-worker"):
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
        stage.server.request("user", "POST", PODS, body=body)
    yield stage
    stage.close()


@pytest.fixture
def kubelets(stage: Stage) -> Kubelets:
    return Kubelets(stage.server, stage.now, decides="-master", code=137)


def courses(kubelets: Kubelets, name: str, failures: int = 2) -> list[str]:
    return [", ".join(map(str, course)) for course in kubelets.courses(name, failures)]


def run(kubelets: Kubelets, name: str, told: str) -> None:
    kubelets.run(next(one for one in kubelets.courses(name, 2) if ", ".join(map(str, one)) == told))


def test_a_pod_that_waits_may_have_run_and_ended(kubelets: Kubelets) -> None:
    runs = "b-worker runs"
    assert courses(kubelets, "b-worker") == ["", runs, f"{runs}, b-worker fails"]
    assert courses(kubelets, "b-worker", failures=0) == ["", runs]


def test_only_who_decides_may_succeed(kubelets: Kubelets) -> None:
    assert "a-master runs, a-master succeeds" in courses(kubelets, "a-master")
    assert not any("b-worker succeeds" in course for course in courses(kubelets, ""))


def test_several_do_whatever_each_may_within_the_failures_that_there_are(kubelets: Kubelets) -> None:
    both = "a-master runs, a-master fails, b-worker runs, b-worker fails"
    assert len(courses(kubelets, "")) == 4 * 3
    assert both in courses(kubelets, "")
    assert both not in courses(kubelets, "", failures=1)


def test_whoever_has_run_goes_on_from_there_and_nothing_happens_after_the_end(stage: Stage, kubelets: Kubelets) -> None:
    run(kubelets, "b-worker", "b-worker runs")
    assert courses(kubelets, "b-worker") == ["", "b-worker fails"]
    run(kubelets, "b-worker", "b-worker fails")
    assert courses(kubelets, "b-worker") == [""]
    (ended,) = stage.server.object(f"{PODS}/b-worker")["status"]["containerStatuses"]  # type: ignore[index]
    assert ended["state"]["terminated"]["exitCode"] == 137


def test_whoever_is_told_to_go_may_be_gone(stage: Stage, kubelets: Kubelets) -> None:
    run(kubelets, "a-master", "a-master runs")
    stage.server.request("user", "DELETE", f"{PODS}/a-master", body={})
    assert courses(kubelets, "a-master") == ["", "a-master is gone"]
    run(kubelets, "a-master", "a-master is gone")
    assert stage.server.object(f"{PODS}/a-master") is None

"""An old list is what a list was before the last change of what it lists, whatever else was changed since."""

from __future__ import annotations

from simulation.stage import NAMESPACE, Stage

from .past import Past
from .words import Names

PODS, SERVICES = f"/api/v1/namespaces/{NAMESPACE}/pods", f"/api/v1/namespaces/{NAMESPACE}/services"


def make(stage: Stage, path: str, name: str) -> None:
    spec = {"containers": [{"name": "c", "image": "x:1"}]} if path == PODS else {"clusterIP": "None"}
    stage.server.request("user", "POST", path, body={"metadata": {"name": name}, "spec": spec})


def test_an_old_list_lacks_the_last_change_of_its_kind() -> None:
    stage = Stage(replicas=0)
    past, names = Past(stage.server, ("pods",)), Names(stage.now)
    assert list(past.versions("pods")) == []
    assert list(past.words(names)) == []
    make(stage, PODS, "first")
    make(stage, PODS, "second")
    before = list(past.words(names))
    make(stage, SERVICES, "a-service")
    ((back, version),) = past.versions("pods")
    told = stage.server.storage.at(next(one for one in stage.server.table.all if one.plural == "pods"), version)
    assert back == 1
    assert list(told) == [f"{NAMESPACE}/first"]
    assert list(past.words(names)) == before
    make(stage, PODS, "third")
    assert list(past.words(names)) != before
    stage.close()

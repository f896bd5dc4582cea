"""Parts that the comparison with a real server does not cover: compaction, garbage collection, recorded changes."""

from __future__ import annotations

import orjson
import pytest

from simulation.custom_resources import whole_server
from simulation.server_events import observe_changes, observe_requests
from trainshed.client.transport import Request
from trainshed.memory.errors import StatusError
from trainshed.memory.garbage_collector import GarbageCollector
from trainshed.memory.server import Server

MAPS = "/api/v1/namespaces/ml/configmaps"


@pytest.fixture
def server() -> Server:
    server = whole_server(lambda: 1.8e9)
    server.make_namespace("ml")
    return server


def make(server: Server, name: str, **metadata) -> dict:
    return server.request("user", "POST", MAPS, body={"metadata": {"name": name, **metadata}})


def owned_by(owner: dict, *, blocks: bool = False) -> dict:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {"ownerReferences": [{**reference, "blockOwnerDeletion": blocks}]}


def delete(server: Server, name: str, policy: str) -> None:
    server.request("user", "DELETE", f"{MAPS}/{name}", body={"propagationPolicy": policy})


def names(server: Server) -> list[str]:
    return [found["metadata"]["name"] for found in server.objects("configmaps")]


def test_a_list_continues_at_its_version_until_that_is_compacted(server):
    for name in "abc":
        make(server, name)
    page = server.request("user", "GET", MAPS, {"limit": "2"})
    token = page["metadata"]["continue"]
    delete(server, "c", "Background")
    make(server, "d")
    rest = server.request("user", "GET", MAPS, {"limit": "2", "continue": token})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]
    server.store.compact()
    response = server.handle("user", Request("GET", MAPS, {"limit": "2", "continue": token}, "application/json"))
    assert response.status == 410
    another = orjson.loads(response.content)["metadata"]["continue"]
    rest = server.request("user", "GET", MAPS, {"limit": "2", "continue": another})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["d"], "of another version than the first page"


def test_a_watch_from_a_compacted_version_gets_an_error_and_is_closed(server):
    version = make(server, "a")["metadata"]["resourceVersion"]
    make(server, "b")
    server.store.compact()
    lines: list[bytes] = []
    watch = server.watch(MAPS, {"resourceVersion": version}, lines.append)
    assert watch.closed
    assert [(orjson.loads(line)["type"], orjson.loads(line)["object"]["code"]) for line in lines] == [("ERROR", 410)]


def test_an_object_enters_and_leaves_the_selector_of_a_watch(server):
    lines: list[bytes] = []
    server.watch(MAPS, {"labelSelector": "app=x"}, lines.append)
    make(server, "a")
    for label in ("x", "x", "y"):
        body = {"metadata": {"labels": {"app": label}}, "data": {"at": str(len(lines))}}
        server.request("user", "PATCH", f"{MAPS}/a", body=body)
    assert [orjson.loads(line)["type"] for line in lines] == ["ADDED", "MODIFIED", "DELETED"]


@pytest.mark.parametrize(
    ("policy", "left"), [("Background", ["other"]), ("Foreground", ["other"]), ("Orphan", ["child", "other"])]
)
def test_dependents_are_deleted_before_after_or_without_their_owner(server, policy, left):
    owner = make(server, "owner")
    make(server, "child", **owned_by(owner, blocks=True))
    make(server, "other")
    changes: list[tuple[str, str]] = []
    observe_changes(server, lambda change: changes.append((change.verb, change.object["metadata"]["name"])))
    delete(server, "owner", policy)
    assert "child" in names(server), "the garbage collector has not run"
    GarbageCollector(server).run()
    assert names(server) == left
    gone = [name for verb, name in changes if verb == "deleted"]
    assert gone == {"Background": ["owner", "child"], "Foreground": ["child", "owner"], "Orphan": ["owner"]}[policy]


def test_a_write_that_changes_nothing_makes_no_version(server):
    before = make(server, "a", labels={"app": "x"})
    after = server.request("user", "PATCH", f"{MAPS}/a", body={"metadata": {"labels": {"app": "x"}}})
    assert after == before


def test_all_changes_and_requests_are_recorded(server):
    changes, requests = [], []
    observe_changes(server, changes.append)
    observe_requests(server, lambda actor, request: requests.append((actor, request.verb, request.status)))
    make(server, "a")
    server.request("operator", "PATCH", f"{MAPS}/a", body={"data": {"key": "x"}})
    with pytest.raises(StatusError):
        make(server, "a")
    server.request("user", "DELETE", f"{MAPS}/a")
    assert [(change.actor, change.verb, change.plural) for change in changes] == [
        ("user", "created", "configmaps"),
        ("operator", "modified", "configmaps"),
        ("user", "deleted", "configmaps"),
    ]
    assert changes[1].before is not None
    assert changes[1].after is not None
    assert ("data" in changes[1].before, changes[1].after["data"]) == (False, {"key": "x"})
    assert requests == [
        ("user", "POST", 201),
        ("operator", "PATCH", 200),
        ("user", "POST", 409),
        ("user", "DELETE", 200),
    ]

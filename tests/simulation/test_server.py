"""The simulated server where no comparison with the real one leads: what it forgets, what is swept, what it records."""

from __future__ import annotations

import orjson
import pytest

from simulation.answers import Refusal
from simulation.collector import Collector
from simulation.server import Server
from trainshed.client.transport import Request

MAPS = "/api/v1/namespaces/ml/configmaps"


@pytest.fixture
def server() -> Server:
    server = Server(lambda: 1.8e9)
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


def test_a_list_goes_on_where_it_was_however_much_has_changed_until_that_is_forgotten(server):
    for name in "abc":
        make(server, name)
    page = server.request("user", "GET", MAPS, {"limit": "2"})
    token = page["metadata"]["continue"]
    delete(server, "c", "Background")
    make(server, "d")
    rest = server.request("user", "GET", MAPS, {"limit": "2", "continue": token})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]
    server.storage.compact()
    said = server.answer("user", Request("GET", MAPS, {"limit": "2", "continue": token}, "application/json"))
    assert said.status == 410
    another = orjson.loads(said.content)["metadata"]["continue"]
    rest = server.request("user", "GET", MAPS, {"limit": "2", "continue": another})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["d"], "of another version than the first page"


def test_a_watch_from_a_version_that_is_forgotten_is_told_so_and_is_over(server):
    version = make(server, "a")["metadata"]["resourceVersion"]
    make(server, "b")
    server.storage.compact()
    lines: list[bytes] = []
    watch = server.watch(MAPS, {"resourceVersion": version}, lines.append)
    assert watch.over
    assert [(orjson.loads(line)["type"], orjson.loads(line)["object"]["code"]) for line in lines] == [("ERROR", 410)]


def test_an_object_enters_and_leaves_what_a_watch_sees(server):
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
def test_dependents_go_before_with_or_without_their_owner(server, policy, left):
    owner = make(server, "owner")
    make(server, "child", **owned_by(owner, blocks=True))
    make(server, "other")
    told: list[tuple[str, str]] = []
    server.changes.append(lambda change: told.append((change.verb, change.object["metadata"]["name"])))
    delete(server, "owner", policy)
    assert "child" in names(server), "nothing is swept before somebody sweeps"
    Collector(server).sweep_all()
    assert names(server) == left
    gone = [name for verb, name in told if verb == "deleted"]
    assert gone == {"Background": ["owner", "child"], "Foreground": ["child", "owner"], "Orphan": ["owner"]}[policy]


def test_a_write_that_changes_nothing_is_none(server):
    before = make(server, "a", labels={"app": "x"})
    after = server.request("user", "PATCH", f"{MAPS}/a", body={"metadata": {"labels": {"app": "x"}}})
    assert after == before


def test_everything_that_changes_and_is_asked_is_on_record(server):
    changes, requests = [], []
    server.changes.append(changes.append)
    server.requests.append(lambda actor, request: requests.append((actor, request.verb, request.status)))
    make(server, "a")
    server.request("operator", "PATCH", f"{MAPS}/a", body={"data": {"key": "x"}})
    with pytest.raises(Refusal):
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


def test_a_store_that_is_restored_is_as_it_was_and_counts_on_from_there(server):
    make(server, "a")
    memory = server.storage.memory()
    delete(server, "a", "Background")
    newer = make(server, "b")
    server.storage.restore(memory)
    assert names(server) == ["a"]
    assert make(server, "c")["metadata"]["resourceVersion"] < newer["metadata"]["resourceVersion"]

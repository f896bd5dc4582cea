"""The store converges to the server's state in whatever order watches, lists and responses arrive."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.replace import replace
from trainshed.controller.store import Store


@dataclass(frozen=True)
class Thing:
    uid: str
    version: str


class Server:
    """Its objects, the watch events that are not delivered yet, and the responses in flight."""

    def __init__(self) -> None:
        self.things: dict[str, Thing] = {}
        self.version = 8  # soon with two digits: versions must not be compared as text
        self.events: deque[tuple[str, Thing]] = deque()
        self.answers: list[Thing] = []

    def make(self) -> None:
        self.version += 1
        self._changed(Thing(f"uid-{self.version}", str(self.version)))

    def change(self, uid: str) -> None:
        self.version += 1
        self._changed(replace(self.things[uid], version=str(self.version)))

    def remove(self, uid: str) -> None:
        self.version += 1
        self.events.append(("removed", replace(self.things.pop(uid), version=str(self.version))))

    def _changed(self, thing: Thing) -> None:
        self.things[thing.uid] = thing
        self.events.append(("changed", thing))
        self.answers.append(thing)


def a_store() -> Store[Thing]:
    return Store(lambda _before, _after: None)


def hear(store: Store[Thing], server: Server) -> None:
    what, thing = server.events.popleft()
    getattr(store, what)(thing)


@given(st.data())
def test_the_store_converges_to_the_state_of_the_server(data):
    server, store = Server(), a_store()
    store.replaced([], str(server.version))
    for step in data.draw(
        st.lists(st.sampled_from(["make", "change", "remove", "hear", "answer", "list"]), max_size=60)
    ):
        if step == "make":
            server.make()
        elif step in ("change", "remove") and server.things:
            getattr(server, step)(data.draw(st.sampled_from(sorted(server.things))))
        elif step == "hear" and server.events:
            hear(store, server)
        elif step == "answer" and server.answers:
            store.on_response(server.answers.pop(data.draw(st.integers(0, len(server.answers) - 1))))
        elif step == "list":
            server.events.clear()
            store.replaced(list(server.things.values()), str(server.version))
        newest = {uid: int(thing.version) for uid, thing in server.things.items()}
        assert all(int(item.version) <= newest[uid] for uid, item in store.items.items() if uid in newest)
    while server.events:
        hear(store, server)
    assert store.items == server.things
    for answer in server.answers:
        store.on_response(answer)
    assert store.items == server.things, "a late response restored a deleted object or an old state"


def test_objects_created_after_a_list_survive_it():
    store = a_store()
    store.replaced([], "5")
    store.on_response(Thing("mine", "9"))
    store.replaced([Thing("other", "3")], "7")
    assert set(store.items) == {"mine", "other"}
    store.replaced([Thing("other", "3")], "12")
    assert set(store.items) == {"other"}


def test_an_older_version_never_replaces_a_newer_one():
    store = a_store()
    store.changed(Thing("a", "10"))
    store.changed(Thing("a", "9"))
    store.on_response(Thing("a", "8"))
    assert store.items["a"].version == "10"


def test_each_change_is_reported_once_with_old_and_new():
    heard = []
    store: Store[Thing] = Store(lambda *change: heard.append(tuple(item and item.version for item in change)))
    store.changed(Thing("a", "2"))
    store.changed(Thing("a", "2"))
    store.on_response(Thing("a", "3"))
    store.changed(Thing("a", "3"))
    store.replaced([Thing("a", "3"), Thing("b", "4")], "5")
    store.removed(Thing("a", "6"))
    store.removed(Thing("a", "6"))
    store.forgotten("b")
    assert heard == [(None, "2"), ("2", "3"), (None, "4"), ("3", None), ("4", None)]


@pytest.mark.fault("C14")
def test_non_numeric_versions_are_taken_in_the_order_of_arrival():
    store = a_store()
    store.changed(Thing("a", "x"))
    store.changed(Thing("a", "b"))
    assert store.items["a"].version == "b"
    store.replaced([], "z")
    assert store.items == {}


@pytest.mark.fault("C14")
def test_after_an_etcd_restore_only_the_new_list_counts():
    store = a_store()
    store.replaced([Thing("kept", "900"), Thing("lost", "990")], "1000")
    store.replaced([Thing("kept", "450")], "500")
    assert store.items == {"kept": Thing("kept", "450")}
    store.changed(Thing("kept", "501"))
    assert store.items["kept"].version == "501"
    assert store.latest == "501"


def test_the_latest_version_follows_lists_and_watches():
    store = a_store()
    store.replaced([], "5")
    store.on_response(Thing("mine", "9"))
    assert store.latest == "5", "responses to own writes do not cover other clients' changes"
    store.changed(Thing("mine", "9"))
    assert (store.latest, store.count()) == ("9", 1)
    store.on_bookmark("12")
    store.on_bookmark("11")
    assert store.latest == "12"


def test_a_confirmed_deletion_is_not_undone_by_old_events():
    store = a_store()
    store.replaced([Thing("a", "7"), Thing("b", "8")], "8")
    store.deleted("a")
    store.changed(Thing("a", "9"))
    assert set(store.items) == {"b"}
    store.replaced([Thing("a", "9"), Thing("b", "8")], "9")
    assert set(store.items) == {"b"}, "a list from before the deletion"
    store.removed(Thing("a", "10"))
    store.deleted("a")
    assert not store._past, "no entry stays after the watch delivered the deletion"


def test_a_deleted_object_can_return_after_an_etcd_restore():
    store = a_store()
    store.replaced([Thing("a", "7")], "7")
    store.deleted("a")
    store.replaced([Thing("a", "5")], "6")
    assert set(store.items) == {"a"}


def test_an_object_missing_in_a_list_returns_only_with_a_newer_version():
    store = a_store()
    store.replaced([Thing("a", "7"), Thing("b", "8")], "8")
    assert store.on_list(list(store.items.values()), [Thing("b", "8")], "20")
    store.changed(Thing("a", "9"))
    store.replaced([Thing("a", "9"), Thing("b", "8")], "19")
    assert set(store.items) == {"b"}, "a watch event and a list from before the read"
    store.changed(Thing("a", "21"))
    assert set(store.items) == {"a", "b"}, "its label was added again"
    store.removed(Thing("a", "22"))
    assert not store._past, "no entry stays after the watch delivered the deletion"


def test_an_object_missing_in_a_list_can_return_with_non_numeric_versions():
    store = a_store()
    store.changed(Thing("a", "x"))
    assert store.on_list([Thing("a", "x")], [], "y")
    store.changed(Thing("a", "z"))
    assert set(store.items) == {"a"}

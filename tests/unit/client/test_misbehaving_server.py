"""An informer and a scripted server in virtual time: back-off, stale lists, and no lost events."""

from __future__ import annotations

from itertools import pairwise

import pytest

from trainshed.client.http import READ_TIMEOUT

from .scripted_server import GONE, ScriptedServer, a_list, after, event, refused


@pytest.mark.parametrize(("lasts", "most"), [(0, 61), (1, 61), (5, 13)])
def test_a_short_watch_continues_at_its_version_at_most_once_a_second(lasts, most):
    server = ScriptedServer([a_list(10, "a")], [(lasts, [event("ADDED", "b", 11)]), (lasts, [])])
    listener, _ = after(server, 60)
    assert most * 0.9 <= len(server.times("watch")) <= most
    assert len(server.times("list")) == 1
    assert {query["resourceVersion"] for _, _, query in server.asked[2:]} == {"11"}
    assert listener.known == {"a": "10", "b": "11"}


def test_a_version_that_expires_again_and_again_is_listed_anew_at_once_and_then_less_and_less_often():
    server = ScriptedServer([a_list(10, "a")], [(0, [GONE])])
    after(server, 60)
    times = server.times("list")
    assert times[1] - times[0] < 0.1, "the first new list is immediate"
    assert len(times) <= 28
    assert max(later - earlier for earlier, later in pairwise(times)) <= 4.1


def test_expiry_after_a_successful_watch_leads_to_an_immediate_list():
    watch = (None, [])
    server = ScriptedServer(
        [a_list(10, "a"), a_list(20, "b"), a_list(30, "c")], [(10, []), (0, [GONE]), (0, [GONE]), watch]
    )
    listener, _ = after(server, 60)
    assert listener.known == {"c": "30"}
    first, second, _ = server.times("list")
    assert second - first <= 10.1


@pytest.mark.fault("C8")
def test_an_error_of_a_watch_is_answered_with_longer_and_longer_pauses():
    server = ScriptedServer([a_list(10)], [(0, [{"type": "ERROR", "object": {"code": 500}}])])
    after(server, 60)
    assert len(server.times("watch")) <= 60, "the server responds to other requests"


def test_missing_responses_are_backed_off():
    trouble = (2, [{"type": "ERROR", "object": {"code": 500}}])
    server = ScriptedServer([a_list(10), refused(500)], [trouble])
    after(server, 60)
    assert len(server.asked) <= 30


def test_retry_after_is_obeyed():
    server = ScriptedServer([refused(429)] * 5 + [a_list(10, "a")], [(None, [])])
    listener, _ = after(server, 20)
    times = server.times("list")
    assert all(1 <= later - earlier <= 1.6 for earlier, later in pairwise(times))
    assert listener.known == {"a": "10"}


@pytest.mark.fault("C6")
def test_when_pages_do_not_keep_the_list_is_read_as_a_whole():
    server = ScriptedServer(
        [a_list(10, "a", continue_token="b"), refused(410), a_list(11, "a", "b"), a_list(12)], [(None, [])]
    )
    listener, _ = after(server, 5)
    assert listener.known == {"a": "11", "b": "11"}
    assert listener.lists == ["11"]
    assert [query.get("limit") for what, _, query in server.asked if what == "list"] == ["500", "500", None]


def test_an_undecodable_object_is_skipped(caplog):
    status, body = a_list(10, "a", "b")
    body["items"].insert(1, {"metadata": {"name": 5}})
    listener, _ = after(ScriptedServer([(status, body)], [(None, [])]), 5)
    assert set(listener.known) == {"a", "b"}
    assert "list pods: skipped undecodable object" in caplog.text


def test_that_all_is_gone_is_believed_when_it_is_said_twice():
    server = ScriptedServer([a_list(10, "a", "b"), a_list(20), a_list(21)], [(0, [GONE]), (None, [])])
    listener, _ = after(server, 3)
    assert listener.known == {}
    assert listener.lists == ["10", "21"]


@pytest.mark.fault("B18")
def test_that_all_is_gone_is_not_believed_when_it_is_said_once():
    server = ScriptedServer([a_list(10, "a", "b"), a_list(20), a_list(21, "a", "b")], [(0, [GONE]), (None, [])])
    listener, _ = after(server, 3)
    assert listener.known == {"a": "21", "b": "21"}
    assert listener.lists == ["10", "21"]


@pytest.mark.fault("B18")
def test_where_all_was_gone_it_is_asked_again_until_something_is_there():
    """A proxy in front of the server returns empty lists for minutes."""
    nothing = [a_list(20 + number) for number in range(4)]
    server = ScriptedServer([a_list(10, "a"), *nothing, a_list(30, "a")], [(0, [GONE]), (60, []), (60, []), (60, [])])
    listener, _ = after(server, 200)
    assert listener.known == {"a": "30"}
    assert len(server.times("list")) == 6, "with known objects, the watch is enough"


@pytest.mark.fault("C5")
def test_a_list_from_the_past_is_not_believed():
    server = ScriptedServer(
        [a_list(10, "a"), a_list(15, "a", "ghost"), a_list(40, "b")], [(0, [event("ADDED", "b", 30), GONE]), (None, [])]
    )
    listener, _ = after(server, 5)
    assert listener.known == {"b": "40"}
    assert listener.lists == ["10", "40"]


@pytest.mark.fault("C14")
def test_a_store_that_was_set_back_is_believed_in_the_end():
    server = ScriptedServer([a_list(1000, "a", "b"), a_list(500, "a")], [(0, [GONE]), (None, [])])
    listener, _ = after(server, 60)
    assert listener.known == {"a": "500"}
    assert listener.lists == ["1000", "500"]
    assert 28 <= server.times("watch")[1] - server.times("watch")[0] <= 33
    assert len(server.times("list")) <= 65


def test_after_an_outage_a_restored_store_is_detected_without_watch_events():
    server = ScriptedServer(
        [a_list(1000, "a"), a_list(500), a_list(500, "b")],
        [(2, [{"type": "ERROR", "object": {"code": 500}}]), (None, [])],
    )
    listener, _ = after(server, 60)
    assert listener.known == {"b": "500"}
    assert server.asked[2][2]["limit"] == "1"


def test_after_an_outage_the_watch_continues_without_a_new_list():
    trouble = (2, [{"type": "ERROR", "object": {"code": 500}}])
    server = ScriptedServer([a_list(1000, "a"), a_list(1200)], [trouble, (None, [])])
    listener, _ = after(server, 60)
    assert listener.known == {"a": "1000"}
    assert listener.lists == ["1000"]


@pytest.mark.fault("C7")
def test_a_watch_that_hangs_is_found_out_and_goes_on_from_where_it_was():
    watches = [(None, [event("ADDED", "b", 11)]), (None, [event("DELETED", "a", 12)])]
    server = ScriptedServer([a_list(10, "a"), a_list(11)], watches)
    listener, _ = after(server, READ_TIMEOUT + 5)
    first, second = server.times("watch")
    assert second - first <= READ_TIMEOUT + 1, "no data and no close"
    assert READ_TIMEOUT <= 90
    assert server.asked[-1][2]["resourceVersion"] == "11"
    assert listener.known == {"b": "11"}


def test_a_kind_that_is_not_served_is_missing_until_its_crd_is_installed():
    _, informer = after(ScriptedServer([refused(404)], [(None, [])]), 200)
    assert (informer.missing, informer.synced.is_set(), informer.heard) == (True, True, 0.0)
    listener, informer = after(ScriptedServer([refused(404)] * 3 + [a_list(10, "a")], [(None, [])]), 60)
    assert (informer.missing, informer.heard > 0) == (False, True)
    assert listener.known == {"a": "10"}

"""A version that one watch has missed is found in another watch or in a response; versions stay in order."""

from __future__ import annotations

import orjson

from chaos.history import Version
from support.api_request import Request
from support.fault_proxy import Passed

from .gaps import filled


def job(version: int, uid: str = "u", **spec: object) -> dict:
    return {"metadata": {"name": "a", "uid": uid, "resourceVersion": str(version)}, "spec": spec}


def seen(before: dict | None, after: dict | None) -> Version:
    return Version(1.0, "tfjobs", before, after)


def written(found: dict, status: int = 200) -> Passed:
    path = "/apis/kubeflow.org/v1/namespaces/n/tfjobs/a/status"
    return Passed(Request("PATCH", path), status, orjson.dumps(found), status, 1.0)


def versions(found: list[Version]) -> list[tuple[str | None, str | None]]:
    def version(one: dict | None) -> str | None:
        return one and one["metadata"]["resourceVersion"]

    return [(version(one.before), version(one.after)) for one in found]


def test_events_that_a_watch_missed_are_found_by_other_watches_and_only_once():
    missed, others = job(2, suspend=True), [seen(None, job(2, suspend=True)), seen(None, job(3))]
    found = filled([seen(None, job(1)), seen(job(1), job(4)), seen(job(4), None)], [written(job(3))], others)
    assert versions(found) == [(None, "1"), ("1", "2"), ("2", "3"), ("3", "4"), ("4", None)]
    assert found[1].after == missed


def test_an_error_response_is_no_version():
    assert versions(filled([seen(None, job(1))], [written(job(2), status=409)])) == [(None, "1")]


def test_versions_follow_each_other_by_object():
    found = filled([seen(None, job(1)), seen(None, job(2, "v")), seen(job(1), job(3))], [])
    assert sorted(versions(found), key=str) == sorted([(None, "1"), ("1", "3"), (None, "2")], key=str)

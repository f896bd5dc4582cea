"""Two states are alike whatever order made them, and differ in whatever the future may depend on."""

from __future__ import annotations

from support.audit.change import CREATED, Change

from .words import Names, digest

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def a_pod(uid: str, version: int, finished: str) -> dict:
    ended = {"terminated": {"exitCode": 1, "finishedAt": finished}}
    meta = {"name": "job-worker-0", "uid": uid, "resourceVersion": str(version), "creationTimestamp": finished}
    return {"metadata": meta, "status": {"containerStatuses": [{"state": ended}]}}


def words(*births: dict, finished: str = "2025-12-31T23:59:55Z") -> str:
    names = Names(lambda: NOW)
    for pod in births:
        names.hear(Change(NOW, "operator", CREATED, "pods", None, pod))
    return names.document(births[-1] | {"status": a_pod("", 0, finished)["status"]})


def uid(number: int) -> str:
    return f"{number:08x}-5eed-4000-8000-000000000000"


LATELY = "2025-12-31T23:59:55Z"


def test_versions_uids_and_births_do_not_tell_two_states_apart() -> None:
    assert words(a_pod(uid(1), 7, LATELY)) == words(a_pod(uid(9), 8, "2025-12-31T23:00:00Z"))


def test_the_second_of_a_name_is_another_than_the_first() -> None:
    assert words(a_pod(uid(1), 7, LATELY)) != words(a_pod(uid(1), 7, LATELY), a_pod(uid(2), 9, LATELY))


def test_how_long_ago_a_failure_was_tells_states_apart_as_far_as_it_decides_something() -> None:
    pod = a_pod(uid(1), 7, LATELY)
    lately = words(pod, finished="2025-12-31T23:59:50Z")
    assert words(pod) == lately
    assert words(pod, finished="2025-12-31T23:59:57.5Z") != lately, "it has yet to settle"
    assert words(pod, finished="2025-12-31T23:59:40Z") != lately, "whoever falls now does so for another reason"
    assert words(pod, finished="2025-12-31T23:59:00Z") != words(pod, finished="2025-12-31T23:59:40Z")


def test_a_digest_is_a_number_other_than_none() -> None:
    assert 0 < digest(["a", "b"]) < 1 << 64
    assert digest(["a", "b"]) != digest(["b", "a"])

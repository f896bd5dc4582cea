"""The versions that a watch has missed during an outage, from the versions that the operator and the user received."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

import orjson

from chaos.history import Version
from support.fault_proxy import Passed
from support.replace import replace


def filled(versions: Iterable[Version], passed: Collection[Passed], others: Iterable[Version] = ()) -> list[Version]:
    """The versions and those that only others have got; each follows the one before it of the same object.

    A restarted server has no history, and a list shows only what exists: a job may have ended and been deleted in
    between. The answers to the operator's writes are in `passed`, other versions of watches and answers in `others`.
    """
    known = [*versions]
    seen = {_version(one) for one in known}
    for one in chain(_answers(passed), others):
        if _version(one) not in seen:
            seen.add(_version(one))
            known.append(one)
    objects: dict[str, list[Version]] = {}
    for one in known:
        objects.setdefault(_object(one)["metadata"]["uid"], []).append(one)
    return [one for versions_of_one in objects.values() for one in _linked(versions_of_one)]


def _answers(passed: Collection[Passed]) -> Iterable[Version]:
    for one in passed:
        if one.request.verb in ("POST", "PATCH") and 200 <= one.stored < 300 and one.request.plural != "events":
            yield Version(one.at, one.request.plural, None, orjson.loads(one.found))


def _linked(versions_of_one: list[Version]) -> Iterable[Version]:
    before = None
    for version in sorted(versions_of_one, key=lambda one: (one.after is None, int(_version(one)))):
        yield replace(version, before=version.before if before is None else before)
        before = version.after


def _object(version: Version) -> dict:
    return version.after or version.before


def _version(version: Version) -> str:
    return _object(version)["metadata"]["resourceVersion"]

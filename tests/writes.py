"""Writes to a world: where the operator may die, what a merge patch does, and what is made has for a name."""

from __future__ import annotations

from typing import Any

LABEL = "training.kubeflow.org/"


class Crash(Exception):
    """The operator has died in the middle of a write."""


class Write:
    """Around a write: counts it, and is where the operator may die, before it or after."""

    def __init__(self, world: Any, what: str) -> None:
        self._world, self._what = world, what

    def __enter__(self) -> None:
        if self._world.dead or self._dies_now(before=True):
            raise Crash(self._what)
        self._world.writes.append(self._what)

    def __exit__(self, error: object, *_: object) -> None:
        if error is None and self._dies_now(before=False):
            raise Crash(self._what)

    def _dies_now(self, *, before: bool) -> bool:
        world = self._world
        if before:
            world.dies_in -= 1
        if world.dies_in != 0 or world.dies_before != before:
            return False
        world.dead = True
        return True


def merged(before: dict, patch: dict) -> dict:
    """RFC 7386."""
    found = {key: value for key, value in before.items() if patch.get(key, value) is not None}
    for key, value in patch.items():
        if isinstance(value, dict):
            found[key] = merged(found.get(key) if isinstance(found.get(key), dict) else {}, value)
        elif value is not None:
            found[key] = value
    return found


def identity(meta: dict, version: str) -> dict:
    """What a pod or a Service that is made with this metadata is known by."""
    labels = meta["labels"]
    return {
        "name": meta["name"],
        "uid": f"{meta['name']}-{version}",
        "version": version,
        "owner": meta["ownerReferences"][0]["uid"],
        "namespace": "ml",
        "job": labels[f"{LABEL}job-name"],
        "role": labels.get(f"{LABEL}replica-type", ""),
        "index": int(labels.get(f"{LABEL}replica-index", -1)),
    }

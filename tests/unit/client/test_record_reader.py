"""Records are read and chosen as jobs are, and a hostile ConfigMap shows nothing else than printable text."""

from __future__ import annotations

import json

import pytest

from support.builders import T0, at
from support.world import World
from trainshed.api.coerce import format_time
from trainshed.api.record_ring import NAME
from trainshed.client.job_reader import JobReader
from trainshed.client.record_reader import chosen, read_records
from trainshed.views import rows


def record(name: str, kind: str = "TFJob", seconds: float = 0, **more: object) -> str:
    """The text of a record."""
    metadata = {"name": name, "namespace": "lie", "creationTimestamp": format_time(at(-60))}
    status = {"conditions": [{"type": "Failed", "status": "True", "reason": "r", "message": "m"}], "ready": "0/2"}
    found = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": metadata, "spec": {}, "status": status}
    return json.dumps(found | {"record": {"form": 1, "ended": format_time(at(seconds)), **more}})


def world(**entries: str) -> World:
    """A cluster with these records."""
    found = World()
    found.create("configmaps", {"metadata": {"name": NAME}, "data": entries})
    return found


async def read(found: World, namespace: str = "ml") -> list[dict]:
    return await read_records(JobReader(found.rest), namespace)


@pytest.mark.parametrize("namespace", ["ml", ""])
async def test_the_newest_comes_first_and_has_the_namespace_of_its_config_map(namespace: str):
    found = await read(world(a=record("old"), b=record("new", seconds=9), c="junk"), namespace)
    assert [(one["metadata"]["name"], one["metadata"]["namespace"]) for one in found] == [("new", "ml"), ("old", "ml")]


@pytest.mark.parametrize("namespace", ["ml", ""])
async def test_without_a_config_map_there_are_none(namespace: str):
    assert await read(World(), namespace) == []


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ["a", "b", "b"]),
        (("tfjobs",), ["a", "b"]),
        (("pytorchjob",), ["b"]),
        (("tfjobs.kubeflow.org", "b"), ["b"]),
        (("b",), ["b", "b"]),
        (("pytorchjob/b",), ["b"]),
        (("@latest",), ["a"]),
        (("nothing",), []),
    ],
)
async def test_words_choose_as_for_jobs(words: tuple[str, ...], names: list[str]):
    found = await read(world(x=record("a", seconds=9), y=record("b"), z=record("b", "PyTorchJob")))
    assert sorted(one["metadata"]["name"] for one in chosen(found, words)) == names


async def test_the_row_of_a_record_has_its_end():
    (found,) = await read(world(a=record("mnist", seconds=60)))
    cells = rows.finished_row(found, at(600), namespaces=False, wide=False)
    assert cells == ("tfjob/mnist", "Failed", "0/2", "0", "11m", "9m", "m")
    assert rows.header(namespaces=False, wide=False, finished=True)[-2:] == ("ENDED", "WHY")
    (gone,) = await read(world(a=record("mnist", deletedBeforeItsEnd=True)))
    assert rows.finished_row(gone, at(600), namespaces=True, wide=True)[-1] == "deleted while it was Failed"


async def test_a_hostile_record_is_one_printable_line():
    evil = "\x1b]0;pwned\x07\n\u202eFailed \x1b[31m" + "x" * 10_000
    text = record(evil, evil).replace('"m"', json.dumps(evil))
    (found,) = await read(world(a=text))
    cells = rows.finished_row(found, T0, namespaces=True, wide=True)
    assert all(cell.isprintable() and len(cell) <= rows.MOST_MESSAGE for cell in cells)

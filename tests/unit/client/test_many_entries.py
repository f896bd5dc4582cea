"""An event about an object with very many entries costs about one pass over its bytes, and little of it is kept."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from trainshed.api.framework import JobDefaults
from trainshed.api.objects import CONFIG_MAPS
from trainshed.client.lists import PODS, dependent_decoder
from trainshed.client.long_lists import LARGE
from trainshed.controller.cache import Cache
from trainshed.controller.namespaces import make_informers
from trainshed.frameworks.mpi import MPI
from trainshed.frameworks.pytorch import PYTORCH
from trainshed.plan.dependents import LAST_APPLIED_HASH, without_pods

FRAMEWORKS = (PYTORCH, MPI)
OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "mnist", "uid": "job-uid", "controller": True}
#: Bytes of an object, and what may be kept of it.
SIZE, KEPT = 400_000, 40_000
#: The most memory that an event takes at a time, in parts of the bytes of the object: copies of the line and of its
#: parts, and no value for each entry.
MOST_MEMORY = 4.5


def listed(entry: Callable[[int], object]) -> list[object]:
    """Return as many entries as fill an object."""
    return [entry(number) for number in range(SIZE // (len(compact(entry(10_000))) + 1))]


def mapped(value: object, prefix: str = "a") -> dict[str, object]:
    return {f"{prefix}{number}": value for number in range(SIZE // (len(prefix) + len(compact(value)) + 9))}


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


REFERENCES = listed(lambda n: {"apiVersion": "v1", "kind": "A", "name": "a", "uid": str(n)})
#: Where an object of any kind may have many entries, and where objects of one kind may, besides their templates.
METADATA: dict[str, dict[str, Any]] = {
    "labels": {"labels": mapped("")},
    "annotations": {"annotations": mapped("")},
    "finalizers": {"finalizers": listed(lambda n: f"a/b{n}")},
    "ownerReferences": {"ownerReferences": REFERENCES},
}
NAMED = listed(lambda n: {"name": f"c{n}"})
TYPED = listed(lambda n: {"type": f"c{n}"})
SECTIONS: dict[str, list[dict[str, Any]]] = {
    "pods": [
        {"spec": {"containers": NAMED}},
        {"spec": {"initContainers": NAMED}},
        {"spec": {"containers": [{"name": "a", "env": NAMED}]}},
        {"status": {"conditions": TYPED}},
        {"status": {"containerStatuses": NAMED}},
        {"status": {"initContainerStatuses": NAMED}},
    ],
    "services": [{"spec": {"ports": listed(lambda n: {"port": n})}}, {"spec": {"selector": mapped("")}}],
    "configmaps": [{"data": mapped("")}, {"binaryData": mapped("")}, {"data": {"a": "x" * SIZE}}],
    "serviceaccounts": [{"secrets": NAMED}],
    "roles": [
        {"rules": listed(lambda n: {"apiGroups": [""], "resources": [f"a{n}"], "verbs": ["get"]})},
        {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": listed(str)}]},
        {"rules": [{"verbs": listed(str)}]},
    ],
    "rolebindings": [{"subjects": NAMED}],
    "horizontalpodautoscalers": [
        {"spec": {"metrics": TYPED}},
        {"spec": {"metrics": [{"resource": {"selector": {"matchLabels": mapped("1000m")}}}]}},
        {"status": {"conditions": TYPED}},
    ],
    "podgroups": [
        {"spec": {"minResources": mapped("1000m")}},
        {"spec": {"a": listed(int)}},
        {"status": {"conditions": TYPED}},
    ],
}
ROWS = [(kind, what, {"metadata": metadata}) for kind in SECTIONS for what, metadata in METADATA.items()]
ROWS += [(kind, compact(one)[:40].decode(), one) for kind, those in SECTIONS.items() for one in those]
ROWS += [("mpijobs", what, {"metadata": METADATA[what]}) for what in METADATA if what != "annotations"]
ROWS += [("mpijobs", "queues", {"metadata": {"labels": mapped("", "kueue.x-k8s.io/")}})]


def an_object(parts: dict[str, Any]) -> dict[str, Any]:
    """Return an object of a job with these parts."""
    given = parts.get("metadata", {})
    owners = [*given.get("ownerReferences", ()), OWNER]
    labels = {"training.kubeflow.org/job-name": "mnist"} | given.get("labels", {})
    identity = {"name": "mnist", "namespace": "ml", "uid": "u", "resourceVersion": "7"}
    return {**parts, "metadata": {**identity, **given, "labels": labels, "ownerReferences": owners}}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "what", "parts"), ROWS, ids=[f"{kind}-{what}"[:60] for kind, what, _ in ROWS])
def test_an_event_about_an_object_with_many_entries_makes_no_value_of_each(kind, what, parts):
    cache = Cache(FRAMEWORKS, JobDefaults(gang_scheduler="volcano"), lambda _key: None)
    informers = {informer.plural: informer for informer in make_informers(None, cache, FRAMEWORKS, "ml")}
    line = compact({"type": "MODIFIED", "object": an_object(parts)})
    informers[kind]._handle(line.replace(b'"7"', b'"6"'))
    gc.collect()
    tracemalloc.start()
    try:
        informers[kind]._handle(line)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert informers[kind]._handler.has("u", "7")
    assert kept < KEPT
    assert most < MOST_MEMORY * len(line)


@pytest.mark.parametrize(
    "owners", [[*REFERENCES, OWNER], [OWNER, *REFERENCES], REFERENCES], ids=["last", "first", "no"]
)
def test_the_controller_is_found_among_many_owners(owners):
    content = compact({"metadata": {"name": "a", "uid": "u", "ownerReferences": owners}})
    expected = "job-uid" if OWNER in owners else ""
    assert [kind.item(content).owner for kind in (PODS, dependent_decoder(CONFIG_MAPS))] == [expected] * 2


@pytest.mark.parametrize(("count", "kept"), [(256, 256), (257, 0)])
def test_container_statuses_that_no_kubelet_writes_are_left_out(count, kept):
    """A large pod with few containers keeps its lists, in the order of the spec."""
    names = [f"c{number}" for number in range(count)]
    spec = {"containers": [{"name": name, "args": ["x" * (LARGE // 200)]} for name in reversed(names)]}
    statuses = [{"name": name, "state": {"running": {}}} for name in names]
    found = PODS.item(compact({"metadata": {"name": "a"}, "spec": spec, "status": {"containerStatuses": statuses}}))
    assert [one.name for one in found.containers] == names[::-1][:kept]


def test_rules_of_a_large_role_that_are_not_known_are_removed_whole():
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    names = {"resourceNames": [str(number) for number in range(20_000)]}
    metadata = {"name": "a", "uid": "u", "resourceVersion": "7", "annotations": {LAST_APPLIED_HASH: "x"}}
    for rules, kept in (([rule | names, rule], [rule]), ([rule], None)):
        role = dependent_decoder(CONFIG_MAPS).item(compact({"metadata": metadata, "rules": rules}))
        patch = without_pods(role)
        assert (patch and json.loads(json.dumps(patch))["rules"]) == kept

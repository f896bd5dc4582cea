"""What is kept of a pod: what its rows and drawings need, with the limits that others' objects need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainshed.api.coerce import as_mapping, as_sequence, parse_text
from trainshed.api.job import Document
from trainshed.client.lists import JSON_OBJECT, Decoder

#: The most containers and conditions of a pod that are kept, and characters of a text.
MOST_CONTAINERS, MOST_CONDITIONS, MOST_TEXT = 32, 32, 4_096
#: The beginning of the labels and annotations that are kept.
OWN = ("training.kubeflow.org/", "trainshed.dev/")
METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "finalizers")
SPEC = ("nodeName", "restartPolicy", "terminationGracePeriodSeconds")
STATUS = ("phase", "reason", "message", "startTime", "podIP")
CONTAINER = ("name", "image", "restartPolicy", "resources")
STATUSES = ("containerStatuses", "initContainerStatuses")


def seen(pod: Document) -> tuple[str, Document]:
    """Return the uid of a pod and what is kept of it."""
    metadata, spec, status = (as_mapping(pod.get(part)) for part in ("metadata", "spec", "status"))
    kept = {
        "metadata": {
            **_picked(metadata, METADATA),
            "deletionGracePeriodSeconds": metadata.get("deletionGracePeriodSeconds"),
            "ownerReferences": [item for item in as_sequence(metadata.get("ownerReferences")) if _controls(item)][:1],
            **{part: _own(as_mapping(metadata.get(part))) for part in ("labels", "annotations")},
        },
        "spec": {
            **_picked(spec, SPEC),
            **{
                part: [_picked(as_mapping(item), CONTAINER) for item in as_sequence(spec.get(part))[:MOST_CONTAINERS]]
                for part in ("containers", "initContainers")
            },
        },
        "status": {
            **_picked(status, STATUS),
            "conditions": [_cut(item) for item in as_sequence(status.get("conditions"))[:MOST_CONDITIONS]],
            **{part: [_cut(item) for item in as_sequence(status.get(part))[:MOST_CONTAINERS]] for part in STATUSES},
        },
    }
    return parse_text(metadata.get("uid")), kept


def controller_uid(pod: Document) -> str:
    """Return the uid of the owner that controls a pod, which is kept; empty without one."""
    owners = as_sequence(as_mapping(pod.get("metadata")).get("ownerReferences"))
    return parse_text(as_mapping(owners[0]).get("uid")) if owners else ""


def _controls(owner: object) -> bool:
    return as_mapping(owner).get("controller") is True


def _own(found: Mapping[str, Any]) -> dict[str, str]:
    return {key: parse_text(value)[:MOST_TEXT] for key, value in found.items() if key.startswith(OWN)}


def _picked(found: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _cut(found[name]) for name in names if name in found}


def _cut(found: object) -> Any:  # noqa: ANN401 - a part of a document
    """Return a part of a document with each of its texts cut."""
    if isinstance(found, str):
        return found if len(found) <= MOST_TEXT else found[:MOST_TEXT]
    if isinstance(found, dict):
        return {key: _cut(value) for key, value in found.items()}
    return [_cut(item) for item in found] if isinstance(found, list) else found


SEEN_PODS: Decoder[tuple[str, Document]] = Decoder(JSON_OBJECT, lambda found, _: seen(found))

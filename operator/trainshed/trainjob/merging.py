"""Strategic merge patches of pod templates, as kubectl and Trainer apply them, for the fields that patches may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The lists that merge, by the name of their field, with the key of their items; all other lists are replaced.
KEYS = {
    "replicatedJobs": "name",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "env": "name",
    "volumeMounts": "mountPath",
}


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with a patch merged into it.

    What Go leaves out when it writes the patch has no effect: null, an empty list or text, and `readOnly: false`.
    """
    found = dict(base)
    for key, value in patch.items():
        if value in (None, [], "") or (key == "readOnly" and value is False):
            continue
        here = found.get(key)
        if isinstance(here, Mapping) and isinstance(value, Mapping):
            found[key] = merged(here, value)
        elif isinstance(here, list) and isinstance(value, list) and key in KEYS:
            found[key] = _merged_list(here, value, KEYS[key])
        else:
            found[key] = value
    return found


def _merged_list(base: list[Any], patch: list[Any], key: str) -> list[Any]:
    """Return a list with items merged by their key.

    The order is that of k8s.io/apimachinery, mergeSortedSlice in pkg/util/strategicpatch/patch.go: items of the base
    keep theirs, those of the patch keep theirs, and a new item stands before the items that the patch does not name.
    """
    order = {item.get(key): number for number, item in enumerate(base)}
    patches = {item.get(key): item for item in patch}
    left = [item for item in base if item.get(key) not in patches]
    right = [merged(base[order[name]], item) if name in order else item for name, item in patches.items()]
    found: list[Any] = []
    while left and right:
        known = right[0].get(key) in order
        comes_first = known and order[left[0].get(key)] < order[right[0].get(key)]
        found.append((left if comes_first else right).pop(0))
    return [*found, *left, *right]

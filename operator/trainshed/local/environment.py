"""The environment, command and arguments of a container, with all references resolved as the kubelet does."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from trainshed.api.job import Document

from .cluster import CONFIG_MAP, SECRET, LocalCluster

#: `$(NAME)`, or `$$`, which stands for one dollar sign.
REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")
#: A key of a label or an annotation in a field path.
SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
GPU = "nvidia.com/gpu"


class ConfigError(Exception):
    """A container refers to something that does not exist; the message is the kubelet's."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the variable; a reference to an unknown variable stays as it is."""

    def replacement(found: re.Match[str]) -> str:
        name = found[1]
        return "$" if name is None else variables.get(name, found[0])

    return REFERENCE.sub(replacement, text)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What containers may refer to: the pod as it was created, its address and its node."""

    pod: Document
    address: str
    node: str

    def field(self, path: str) -> str:
        """Return the value of a field path of the downward API; raises `ConfigError`."""
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        if found := SUBSCRIPT.fullmatch(path):
            return str((metadata.get(found[1]) or {}).get(found[2], ""))
        if path in ("metadata.labels", "metadata.annotations"):
            entries = (metadata.get(path.partition(".")[2]) or {}).items()
            return "\n".join(f'{key}="{value}"' for key, value in sorted(entries))
        known = {
            "metadata.name": metadata["name"],
            "metadata.namespace": metadata["namespace"],
            "metadata.uid": metadata["uid"],
            "spec.nodeName": self.node,
            "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
            "status.hostIP": self.address,
            "status.hostIPs": self.address,
            "status.podIP": self.address,
            "status.podIPs": self.address,
        }
        if path not in known:
            raise ConfigError(f"unsupported fieldPath: {path}")
        return str(known[path])


class EnvironmentResolver:
    """Resolves the environments of containers; ConfigMaps and Secrets are those of the cluster."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def environment(self, container: Document, facts: PodFacts) -> dict[str, str]:
        """Return the variables of a container; raises `ConfigError`."""
        found: dict[str, str] = {}
        for source in container.get("envFrom") or ():
            found.update(self._all_of(source, facts.pod["metadata"]["namespace"]))
        for entry in container.get("env") or ():
            value = self._value(entry, container, facts)
            if value is not None:
                found[entry["name"]] = expand(value, found) if "valueFrom" not in entry else value
        return found

    def data(self, kind: str, namespace: str, name: str) -> dict[str, bytes] | None:
        """Return the data of a ConfigMap or a Secret, None if it does not exist."""
        found = self._cluster.find(kind, namespace, name)
        if found is None:
            return None
        texts = found.get("stringData" if kind == SECRET else "data") or {}
        coded = found.get("data" if kind == SECRET else "binaryData") or {}
        plain = {key: str(value).encode() for key, value in texts.items()}
        return {key: base64.b64decode(value) for key, value in coded.items()} | plain

    def _all_of(self, source: Document, namespace: str) -> Iterator[tuple[str, str]]:
        for field, kind in (("configMapRef", CONFIG_MAP), ("secretRef", SECRET)):
            reference = source.get(field)
            if reference:
                data = self._required(kind, namespace, reference)
                yield from ((f"{source.get('prefix', '')}{key}", value.decode()) for key, value in data.items())

    def _required(self, kind: str, namespace: str, reference: Document) -> dict[str, bytes]:
        data = self.data(kind, namespace, reference["name"])
        if data is None and not reference.get("optional"):
            raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
        return data or {}

    def _value(self, entry: Document, container: Document, facts: PodFacts) -> str | None:
        """Return the value of an entry before expansion; None if an optional reference leads nowhere."""
        source = entry.get("valueFrom") or {}
        for field, kind in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
            if reference := source.get(field):
                data = self._required(kind, facts.pod["metadata"]["namespace"], reference)
                if reference["key"] in data:
                    return data[reference["key"]].decode()
                if reference.get("optional"):
                    return None
                raise ConfigError(f"couldn't find key {reference['key']} in {kind} {reference['name']}")
        if reference := source.get("fieldRef"):
            return facts.field(reference["fieldPath"])
        if reference := source.get("resourceFieldRef"):
            return resource(container, reference["resource"])
        return str(entry.get("value") or "")


def resource(container: Document, path: str) -> str:
    """Return a resource such as `limits.cpu` as it is written; 0 if it is not."""
    part, _, name = path.partition(".")
    return str(((container.get("resources") or {}).get(part) or {}).get(name, 0))


class Gpus:
    """The GPUs of this machine, which containers get one by one, by their numbers, until their pod has ended."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._free = list(numbers)
        self._held: dict[str, dict[str, list[int]]] = {}

    def take(self, uid: str, container: Document) -> str | None:
        """Return the numbers of the GPUs of a container of the pod with this uid, None if it asks for no GPU.

        They are separated by commas. If there are fewer than it asks for, it gets those that are free.
        """
        count = int(float(resource(container, f"limits.{GPU}")))
        if not count:
            return None
        held = self._held.setdefault(uid, {})
        if container["name"] not in held:
            held[container["name"]], self._free = self._free[:count], self._free[count:]
        return ",".join(map(str, held[container["name"]]))

    def release(self, uid: str) -> None:
        """Return the GPUs of a pod that has ended."""
        self._free = sorted([*self._free, *chain(*self._held.pop(uid, {}).values())])

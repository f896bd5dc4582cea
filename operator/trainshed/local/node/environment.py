"""The environment, command and arguments of a container, with all references resolved as the kubelet does.

The rules are those of `makeEnvironmentVariables` in pkg/kubelet/kubelet_pods.go of Kubernetes 1.37.
"""

from __future__ import annotations

import base64
import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from trainshed.api.job import Document
from trainshed.api.quantities import parse_quantity
from trainshed.local.runtimes.protocol import Room, StartFailed, TooLong, bytes_of
from trainshed.local.stored_objects import CONFIG_MAP, SECRET

from . import downward

#: `$(NAME)`, or `$$`, which stands for one dollar sign.
REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")
#: A key of a label or an annotation in a field path.
SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
GPU = "nvidia.com/gpu"
#: The most bytes of an argument or a variable with which Linux starts a program.
LONGEST = 128 << 10
#: The fields with the texts and with the coded data of an object.
FIELDS = {CONFIG_MAP: ("data", "binaryData"), SECRET: ("stringData", "data")}
#: Errors of the machine, and not of a pod: nothing can go on.
MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class ConfigError(Exception):
    """A container refers to something that does not exist; the message is the kubelet's."""


def incomplete(error: ConfigError | OSError) -> str:
    """Return what is wrong with the configuration of a pod, such as a subPath below a file; raises `MACHINE` again."""
    if isinstance(error, OSError):
        if error.errno in MACHINE:
            raise error
        return f"{error.strerror}: {error.filename}"
    return str(error)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the variable; a reference to an unknown variable stays as it is.

    Raises `TooLong` before the text is longer than what a program can get: some lines could fill the memory.
    """
    length = len(text)

    def replacement(found: re.Match[str]) -> str:
        nonlocal length
        name = found[1]
        value = "$" if name is None else variables.get(name, found[0])
        length += len(value) - len(found[0])
        if length > LONGEST:
            raise TooLong(f"an argument or a variable has more than {LONGEST} bytes after $({name}) is replaced")
        return value

    end = _end_of_references(text)
    return REFERENCE.sub(replacement, text[:end]) + text[end:].replace("$$", "$")


def references(text: str) -> Iterator[str]:
    """Yield the names of the variables that a text refers to."""
    for found in REFERENCE.finditer(text, 0, _end_of_references(text)):
        if found[1] is not None:
            yield found[1]


def _end_of_references(text: str) -> int:
    """Return where the last reference may end: each beginning of one without an end would be looked for to the end."""
    return text.rfind(")") + 1


@dataclass(frozen=True, slots=True)
class Program:
    """What a container starts, with all references resolved."""

    command: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str]

    @property
    def size(self) -> int:
        """The bytes of its arguments and variables."""
        return sum(map(bytes_of, (*self.command, *self.args, *self.env.values())))


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What containers may refer to: the pod as it was created, its address and its node."""

    pod: Document
    address: str
    node: downward.NodeFacts

    def field(self, path: str) -> str:
        """Return the value of a field path of the downward API; raises `ConfigError`."""
        metadata, spec = self.pod["metadata"], self.pod["spec"]
        if found := SUBSCRIPT.fullmatch(path):
            return str((metadata.get(found[1]) or {}).get(found[2], ""))
        if path in ("metadata.labels", "metadata.annotations"):
            return downward.as_lines(metadata.get(path.partition(".")[2]) or {})
        known = {
            "metadata.name": metadata["name"],
            "metadata.namespace": metadata["namespace"],
            "metadata.uid": metadata["uid"],
            "spec.nodeName": self.node.name,
            "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
            "status.hostIP": self.node.address or self.address,
            "status.hostIPs": self.node.address or self.address,
            "status.podIP": self.address,
            "status.podIPs": self.address,
        }
        if path not in known:
            raise ConfigError(f"unsupported fieldPath: {path}")
        return str(known[path])

    def resource(self, selector: Document, container: Document | None = None) -> str:
        """Return the value of a resourceFieldRef, of this container unless it names one; raises `ConfigError`."""
        spec, name = self.pod["spec"], selector.get("containerName")
        if name:
            known = (*spec["containers"], *(spec.get("initContainers") or ()))
            container = next((found for found in known if found["name"] == name), None)
        if container is None:
            raise ConfigError(f"container {name} not found")
        found = downward.resource_value(container, selector, downward.of_pod(spec, self.node.allocatable))
        if found is None:
            raise ConfigError(f"unsupported container resource : {selector.get('resource')}")
        return found


class EnvironmentResolver:
    """Resolves the environments of containers; `find` returns an object by kind, namespace and name."""

    def __init__(self, find: Callable[[str, str, str], Document | None]) -> None:
        self._find = find
        self._known: dict[tuple[str, str, str, bool], tuple[Document, dict[str, bytes]]] = {}

    def program(self, container: Document, facts: PodFacts) -> Program:
        """Return what a container starts; raises `ConfigError`, and `StartFailed` for what no process can have."""
        room = Room()
        env = self.environment(container, facts, room)
        command, args = (
            tuple(room.take(expand(str(word), env)) for word in container.get(part) or ())
            for part in ("command", "args")
        )
        return Program(command, args, env)

    def environment(self, container: Document, facts: PodFacts, room: Room) -> dict[str, str]:
        """Return the variables of a container, as far as there is room; raises `ConfigError`, and `StartFailed`."""
        found: dict[str, str] = {}
        for name, value in self._variables(container, facts, found):
            found[name] = room.take(value, found.get(name, ""))
        if wrong := next((name for name, value in found.items() if "\0" in value), None):
            raise StartFailed(f"environment variable value can't contain null(\\x00): {wrong}")
        return found

    def _variables(self, container: Document, facts: PodFacts, found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the variables one after another; the values refer to those that are found before."""
        for source in container.get("envFrom") or ():
            yield from self._all_of(source, facts)
        for entry in container.get("env") or ():
            if text := str(entry.get("value") or ""):
                yield entry["name"], expand(text, found)
            elif (value := self._value(entry.get("valueFrom") or {}, container, facts)) is not None:
                yield entry["name"], value

    def data(self, kind: str, namespace: str, name: str, *, only_texts: bool = False) -> dict[str, bytes] | None:
        """Return the data of a ConfigMap or a Secret, None if it does not exist; raises `ConfigError`.

        Those of an object are decoded once, as thousands of variables may refer to it. With `only_texts` it is what
        variables can get: of a ConfigMap no `binaryData`.
        """
        found = self._find(kind, namespace, name)
        if found is None:
            return None
        place = (kind, namespace, name, only_texts and kind == CONFIG_MAP)
        before, data = self._known.get(place, (None, {}))
        if before is not found:
            data = _decoded(found, kind, name, only_texts=place[-1])
            self._known[place] = (found, data)
        return data

    def _texts(self, kind: str, facts: PodFacts, reference: Document) -> dict[str, bytes]:
        """Return what variables can get; raises `ConfigError`."""
        data = self.data(kind, facts.pod["metadata"]["namespace"], reference["name"], only_texts=True)
        if data is None and not reference.get("optional"):
            raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
        return data or {}

    def _all_of(self, source: Document, facts: PodFacts) -> Iterator[tuple[str, str]]:
        for field, kind in (("configMapRef", CONFIG_MAP), ("secretRef", SECRET)):
            if reference := source.get(field):
                for key, value in self._texts(kind, facts, reference).items():
                    yield f"{source.get('prefix') or ''}{key}", _text(value)

    def _value(self, source: Document, container: Document, facts: PodFacts) -> str | None:
        """Return the value from a source, empty without one; None if an optional reference leads nowhere."""
        if reference := source.get("fieldRef"):
            return facts.field(reference["fieldPath"])
        if reference := source.get("resourceFieldRef"):
            return facts.resource(reference, container)
        for field, kind in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
            if reference := source.get(field):
                data, key = self._texts(kind, facts, reference), reference["key"]
                if key in data:
                    return _text(data[key])
                if reference.get("optional"):
                    return None
                place = f"{facts.pod['metadata']['namespace']}/{reference['name']}"
                raise ConfigError(f"couldn't find key {key} in {kind} {place}")
        return ""


def _decoded(found: Document, kind: str, name: str, *, only_texts: bool) -> dict[str, bytes]:
    """Return the data of an object; a null is an empty text, as for the API server. Raises `ConfigError`."""
    texts, coded = (found.get(field) or {} for field in FIELDS[kind])
    try:
        decoded = {key: base64.b64decode(value or "") for key, value in ({} if only_texts else coded).items()}
    except (TypeError, ValueError) as error:
        raise ConfigError(f'{kind.lower()} "{name}" has illegal base64 data') from error
    return decoded | {key: str("" if value is None else value).encode() for key, value in texts.items()}


def of_fields(container: Document) -> frozenset[str]:
    """Return the names of the variables that are fields of the pod, such as its name."""
    last = {entry["name"]: entry for entry in container.get("env") or ()}
    return frozenset(name for name, entry in last.items() if (entry.get("valueFrom") or {}).get("fieldRef"))


def _text(value: bytes) -> str:
    """Return the value of a variable; each byte that is not UTF-8 becomes U+FFFD, as in the JSON of a runtime."""
    return re.sub("[\udc80-\udcff]", "\ufffd", value.decode(errors="surrogateescape"))


def gpu_numbers() -> list[int]:
    """Return the numbers of the NVIDIA GPUs of this machine."""
    names = (path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*"))
    return sorted(int(name) for name in names if name.isdecimal())


class Gpus:
    """The GPUs of this machine, which containers get one by one, by their numbers, until their pod has ended."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._free = list(numbers)
        self._held: dict[str, dict[str, list[int]]] = {}

    def take(self, uid: str, container: Document) -> str | None:
        """Return the numbers of the GPUs of a container of the pod with this uid, None if it asks for no GPU.

        They are separated by commas. If there are fewer than it asks for, it gets those that are free.
        """
        limits = (container.get("resources") or {}).get("limits") or {}
        count = int(parse_quantity(limits.get(GPU)) or 0)
        if not count:
            return None
        held = self._held.setdefault(uid, {})
        if container["name"] not in held:
            held[container["name"]], self._free = self._free[:count], self._free[count:]
        return ",".join(map(str, held[container["name"]]))

    def release(self, uid: str) -> None:
        """Return the GPUs of a pod that has ended."""
        self._free = sorted([*self._free, *chain(*self._held.pop(uid, {}).values())])

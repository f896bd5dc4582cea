"""What the API server refuses in the objects of a run: names, keys and paths, before anything is written or started.

Only fields are checked that have an effect on this machine. A few values are refused here that an API server accepts
although no pod can run with them: names of claims and images that cannot exist, and relative paths of a node.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainshed.api.job import Document
from trainshed.api.quantities import parse_quantity

from . import names
from .names import invalid, invalid_mode, quoted
from .stored_objects import CLAIM, CONFIG_MAP, SECRET

#: The most bytes of the data of a ConfigMap or a Secret.
LARGEST = 1 << 20
#: The fields with the data of an object, and whether their values are in base 64.
DATA = {CONFIG_MAP: (("data", False), ("binaryData", True)), SECRET: (("data", True), ("stringData", False)), CLAIM: ()}
HOST_PATH_TYPES = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
#: The values that some fields of containers can have.
CHOICES = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
}
PROTOCOLS, LARGEST_PORT = ("SCTP", "TCP", "UDP"), 65535
#: What the files of a volume can tell about their pod.
FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
ABSOLUTE = "must be an absolute path"
NOT_AN_IMAGE = "must be the name of an image"


def problems(objects: Iterable[Document], pods: Iterable[Document]) -> list[str]:
    """Return what is wrong with the objects of a file and with the pods of its jobs, each once."""
    found: dict[str, None] = {}
    for item in objects:
        metadata = item.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        found |= dict.fromkeys(f"{item.get('kind')} {name or '(no name)'}: {problem}" for problem in _object(item))
    known: set[str] = set()
    for pod in pods:
        new = [problem for problem in _pod(pod) if problem not in known]  # replicas of a role have the same problems
        known.update(new)
        found |= dict.fromkeys(f"pod {pod['metadata']['name']}: {problem}" for problem in new)
    return list(found)


def _object(document: Document) -> Iterator[str]:
    yield from _metadata(document)
    if document.get("kind") not in DATA:
        return
    size, keys = 0, set()
    for field, coded in DATA[document["kind"]]:
        values = document.get(field)
        if values is not None and not isinstance(values, dict):
            yield f"{field}: Invalid value: must be of type object"
            continue
        for key, value in (values or {}).items():
            path = f"{field}[{key}]"
            yield from invalid(path, key, names.key)
            yield from _value(path, value, coded=coded)
            if key in keys and document["kind"] == CONFIG_MAP:
                yield f"{path}: Invalid value: {quoted(str(key))}: duplicate of key present in data"
            keys.add(key)
            size += len(str(value)) * 3 // 4 if coded else len(str(value).encode(errors="replace"))
    if size > LARGEST:
        yield f"data: Too long: may not be more than {LARGEST} bytes"


def _metadata(document: Document) -> Iterator[str]:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        yield "metadata: Invalid value: must be of type object"
        return
    yield from invalid("metadata.name", metadata.get("name") or "", names.subdomain)
    yield from invalid("metadata.namespace", metadata.get("namespace") or "", names.label)
    for part in ("labels", "annotations"):
        texts = metadata.get(part) or {}
        if not isinstance(texts, dict) or any(not isinstance(value, str | None) for value in texts.values()):
            yield f"metadata.{part}: Invalid value: must be of type object with values of type string"
            continue
        rule = names.qualified if part == "labels" else names.annotation
        for key, value in texts.items():
            yield from invalid(f"metadata.{part}", key, rule)
            if part == "labels" and value:
                yield from invalid("metadata.labels", value, names.label_value)


def _value(path: str, value: object, *, coded: bool) -> Iterator[str]:
    if value is None:  # an empty text, as for the API server
        return
    if not isinstance(value, str):
        yield f"{path}: Invalid value: must be of type string"
    elif coded:
        try:
            base64.b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
        except (binascii.Error, ValueError):
            yield f"{path}: Invalid value: illegal base64 data"


def _pod(pod: Document) -> Iterator[str]:
    yield from _metadata(pod)
    spec = pod["spec"]
    yield from (f"{path}: Invalid value: {problem}" for path, problem in _unwritable(spec, "spec"))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            yield from invalid(f"spec.{field}", spec[field], names.label)
    volumes: list[str] = []
    for path, volume in _items(spec, "spec", "volumes"):
        yield from invalid(f"{path}.name", volume.get("name") or "", names.label)
        if volume.get("name") in volumes:
            yield f"{path}.name: Duplicate value: {quoted(volume['name'])}"
        volumes.append(str(volume.get("name")))
        yield from _volume(path, volume)
    containers: list[str] = []
    for part in ("initContainers", "containers"):
        for path, container in _items(spec, "spec", part):
            yield from invalid(f"{path}.name", container.get("name") or "", names.label)
            if container.get("name") in containers:
                yield f"{path}.name: Duplicate value: {quoted(container['name'])}"
            containers.append(str(container.get("name")))
            yield from invalid(f"{path}.image", container.get("image") or "", _image)
            for field, known in CHOICES.items():
                yield from _choice(f"{path}.{field}", container.get(field) or known[-1], known)
            yield from _resources(f"{path}.resources", container.get("resources"))
            yield from _ports(path, container)
            yield from _environment(path, container)
            yield from _mounts(path, container, volumes)


def _resources(path: str, resources: object) -> Iterator[str]:
    """Yield negative amounts, and requests of more than the limit."""
    known = resources if isinstance(resources, dict) else {}
    limits, requests = (known[field] if isinstance(known.get(field), dict) else {} for field in ("limits", "requests"))
    for field, found in (("limits", limits), ("requests", requests)):
        for name, text in found.items():
            amount, limit = parse_quantity(text), parse_quantity(limits.get(name))
            if amount is not None and amount < 0:
                yield f"{path}.{field}[{name}]: Invalid value: {quoted(str(text))}: must be greater than or equal to 0"
            elif amount is not None and limit is not None and amount > limit >= 0:
                problem = f"must be less than or equal to {name} limit of {limits[name]}"
                yield f"{path}.requests: Invalid value: {quoted(str(text))}: {problem}"


def _unwritable(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each text that the system cannot take, and of each null in a list, and why."""
    if isinstance(value, str):
        yield from ((path, problem) for problem in names.writable(value))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _unwritable(str(key), f"{path}[{key}]")
            yield from _unwritable(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if item is None:
                yield f"{path}[{index}]", "must not be null"
            yield from _unwritable(item, f"{path}[{index}]")


def _items(holder: Document, path: str, field: str) -> Iterator[tuple[str, Document]]:
    """Yield the items of a list with their paths; one that is no object counts as an empty one."""
    for index, item in enumerate(holder.get(field) or ()):
        yield f"{path}.{field}[{index}]", item if isinstance(item, dict) else {}


def _volume(path: str, volume: Document) -> Iterator[str]:
    kinds = [key for key, value in volume.items() if key != "name" and value is not None]
    for kind in kinds[1:]:
        yield f"{path}.{kind}: Forbidden: may not specify more than 1 volume type"
    for kind in kinds[:1]:
        source: Document = volume[kind]
        match kind:
            case "hostPath":
                yield from _host_path(f"{path}.hostPath", source)
            case "configMap":
                yield from _files(f"{path}.configMap", source, "name")
            case "secret":
                yield from _files(f"{path}.secret", source, "secretName")
            case "downwardAPI":
                yield from _files(f"{path}.downwardAPI", source, "")
            case "projected":
                yield from _projected(f"{path}.projected", source)
            case "persistentVolumeClaim":
                yield from invalid(f"{path}.{kind}.claimName", source.get("claimName") or "", names.subdomain)


def _host_path(path: str, source: Document) -> Iterator[str]:
    wanted = source.get("path") or ""
    yield from invalid(f"{path}.path", wanted, names.without_backsteps)
    if wanted and not wanted.startswith("/"):
        yield f"{path}.path: Invalid value: {quoted(wanted)}: {ABSOLUTE}"
    yield from _choice(f"{path}.type", source.get("type") or "", HOST_PATH_TYPES)


def _choice(path: str, value: object, known: tuple[str, ...]) -> Iterator[str]:
    if value not in known:
        listed = ", ".join(map(quoted, known))
        yield f"{path}: Unsupported value: {quoted(str(value))}: supported values: {listed}"


def _files(path: str, source: Document, name: str) -> Iterator[str]:
    """Yield the problems of a source of files; `name` is the field with the name of the object, if there is one."""
    if name and not source.get(name):
        yield f"{path}.{name}: Required value"
    yield from invalid_mode(f"{path}.defaultMode", source.get("defaultMode"))
    for where, item in _items(source, path, "items"):
        yield from invalid(f"{where}.path", item.get("path") or "", names.projected)
        yield from invalid_mode(f"{where}.mode", item.get("mode"))
        if name and not item.get("key"):
            yield f"{where}.key: Required value"
        if not name:
            yield from _field(where, item)


def _field(path: str, item: Document) -> Iterator[str]:
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field and resource:
        yield f"{path}: Invalid value: fieldRef and resourceFieldRef can not be specified simultaneously"
    elif field:
        wanted = str(field.get("fieldPath") or "")
        if not (wanted in FIELDS or wanted.startswith(("metadata.labels['", "metadata.annotations['"))):
            yield from _choice(f"{path}.fieldRef.fieldPath", wanted, FIELDS)
    elif resource:
        for name in ("containerName", "resource"):
            if not resource.get(name):
                yield f"{path}.resourceFieldRef.{name}: Required value"
    else:
        yield f"{path}: Required value: one of fieldRef and resourceFieldRef is required"


def _projected(path: str, source: Document) -> Iterator[str]:
    yield from invalid_mode(f"{path}.defaultMode", source.get("defaultMode"))
    taken: list[str] = []
    for where, item in _items(source, path, "sources"):
        for kind, name in (("configMap", "name"), ("secret", "name"), ("downwardAPI", "")):
            found = item.get(kind)
            if found is None:
                continue
            yield from _files(f"{where}.{kind}", found, name)
            for _, file in _items(found, "", "items"):
                if file.get("path") in taken:
                    yield f"{path}: Invalid value: {quoted(str(file['path']))}: conflicting duplicate paths"
                taken.append(str(file.get("path")))
        if (token := item.get("serviceAccountToken")) is not None:
            yield from invalid(f"{where}.serviceAccountToken.path", token.get("path") or "", names.projected)
        if len([kind for kind, value in item.items() if value is not None]) > 1:
            yield f"{where}: Forbidden: may not specify more than 1 volume type per source"


def _ports(path: str, container: Document) -> Iterator[str]:
    taken: list[str] = []
    for where, port in _items(container, path, "ports"):
        name = port.get("name")
        if name:
            yield from invalid(f"{where}.name", name, names.port)
            if name in taken:
                yield f"{where}.name: Duplicate value: {quoted(name)}"
            taken.append(name)
        if not port.get("containerPort"):
            yield f"{where}.containerPort: Required value"
        for field in ("containerPort", "hostPort"):
            if (number := port.get(field)) and not 0 < number <= LARGEST_PORT:
                yield f"{where}.{field}: Invalid value: {number}: must be between 1 and {LARGEST_PORT}, inclusive"
        yield from _choice(f"{where}.protocol", port.get("protocol") or "TCP", PROTOCOLS)


def _environment(path: str, container: Document) -> Iterator[str]:
    for where, entry in _items(container, path, "env"):
        yield from invalid(f"{where}.name", entry.get("name") or "", names.variable)
        for field in ("configMapKeyRef", "secretKeyRef"):
            reference: Mapping[str, Any] | None = (entry.get("valueFrom") or {}).get(field)
            if reference is not None:
                yield from invalid(f"{where}.valueFrom.{field}.name", reference.get("name") or "", names.subdomain)
                yield from invalid(f"{where}.valueFrom.{field}.key", reference.get("key") or "", names.key)
    for where, source in _items(container, path, "envFrom"):
        if source.get("prefix"):
            yield from invalid(f"{where}.prefix", source["prefix"], names.variable)
        given = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
        if not given:
            yield f'{path}.envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'
        elif len(given) > 1:
            yield f'{path}.envFrom: Invalid value: "": may not have more than one field specified at a time'
        for field in given:
            reference = source[field]
            yield from invalid(f"{where}.{field}.name", reference.get("name") or "", names.subdomain)


def _mounts(path: str, container: Document, volumes: Iterable[str]) -> Iterator[str]:
    taken: list[str] = []
    for where, mount in _items(container, path, "volumeMounts"):
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield f"{where}.name: Required value"
        elif name not in volumes:
            yield f"{where}.name: Not found: {quoted(name)}"
        yield from invalid(f"{where}.mountPath", target, names.writable)
        if target in taken:
            yield f"{where}.mountPath: Invalid value: {quoted(target)}: must be unique"
        taken.append(target)
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                yield from invalid(f"{where}.{field}", mount[field], names.descending)
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield f"{where}.subPathExpr: Invalid value: subPathExpr and subPath are mutually exclusive"


def _image(value: str) -> list[str]:
    """Return why a value is not the name of an image.

    docker would take one that begins with - for an option, and podman one with a transport, such as dir:/data/x or
    oci:./images, for files of this machine.
    """
    plain = value.isascii() and value.isprintable() and " " not in value
    registry, slash, _ = value.partition("/")
    host, colon, port = registry.rpartition(":")
    transport = slash and colon and not (port.isdecimal() and (":" not in host or host.startswith("[")))
    return [] if plain and not value.startswith("-") and not transport else [NOT_AN_IMAGE]

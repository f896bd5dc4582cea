"""What the variables and volumes of pods refer to and does not exist, and amounts of resources that are none.

A pod that refers to nothing would wait without end, and the API server refuses the others: see
pkg/apis/core/validation of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from trainshed.api.job import Document
from trainshed.api.quantities import BINARY, LARGE, MAX_AMOUNT, SMALL, parse_quantity
from trainshed.local.node.downward import CPU, OF_NODE, RESOURCE, NodeFacts
from trainshed.local.node.environment import FIELDS, SUBSCRIPT, ConfigError, EnvironmentResolver, PodFacts
from trainshed.local.runtimes.protocol import StartFailed, TooLong

from .names import SHOWN
from .stored_objects import CONFIG_MAP, SECRET

#: The objects of a file, and those that the operator creates, by kind and name.
Objects = Mapping[tuple[str, str], Document]
#: The fields of a pod that a variable can have.
OF_POD = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
#: The divisors of processors and of bytes, which may be one or a suffix.
DIVISORS = {True: (Decimal(1), SMALL["m"]), False: (Decimal(1), *LARGE.values(), *BINARY.values())}
RESOURCES = ", ".join((*OF_NODE, "hugepages-*"))
#: The most bytes that the arguments and variables of all replicas have together.
MOST = 256 << 20
NOT_WRITTEN = "Forbidden: variables from files of a volume do not exist here; use a ConfigMap"


def problems(pods: Iterable[Document], objects: Objects) -> Iterator[str]:
    """Yield what is wrong, once for all replicas with the same template, each with what to do."""
    known: set[str] = set()
    for pod in pods:
        for problem in (*_volumes(pod["spec"], objects), *_containers(pod["spec"], objects)):
            if problem not in known:
                known.add(problem)
                yield f"pod {pod['metadata']['name']}: {problem}"


def too_long(jobs: Iterable[tuple[Iterable[Document], Objects]]) -> Iterator[str]:
    """Yield the first container whose arguments and variables are too long for a program, or that all of them are.

    A few lines can stand for more than the memory has, as each `$(NAME)` is replaced by a text. The pods of each job
    have no `problems`.
    """
    total = 0
    for place, container, facts, resolver in _placed(jobs):
        try:
            total += resolver.program(container, facts).size
        except TooLong as error:
            yield f"{place}: Too long: {error}"
            return
        except (ConfigError, StartFailed):  # which are the end of one container
            continue
        if total > MOST:
            yield f"Too long: the arguments and variables of all replicas together have more than {MOST} bytes"
            return


def _placed(
    jobs: Iterable[tuple[Iterable[Document], Objects]],
) -> Iterator[tuple[str, Document, PodFacts, EnvironmentResolver]]:
    """Yield all containers with their places, their pods, and what resolves their references."""
    for pods, objects in jobs:
        resolver = EnvironmentResolver(lambda kind, _, name, known=objects: known.get((kind, name)))  # type: ignore[misc]
        for pod in pods:
            facts = PodFacts({**pod, "metadata": {**pod["metadata"], "uid": ""}}, "", NodeFacts(""))
            for part in ("initContainers", "containers"):
                for index, container in enumerate(pod["spec"].get(part) or ()):
                    yield f"pod {pod['metadata']['name']}: spec.{part}[{index}]", container, facts, resolver


def _volumes(spec: Document, objects: Objects) -> Iterator[str]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        path = f"spec.volumes[{index}]"
        yield from _source(path, volume, "secretName", objects)
        yield from _downward(f"{path}.downwardAPI", volume.get("downwardAPI") or {}, spec)
        yield from _amount(f"{path}.emptyDir.sizeLimit", (volume.get("emptyDir") or {}).get("sizeLimit"))
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            part = f"{path}.projected.sources[{number}]"
            yield from _source(part, source, "name", objects)
            yield from _downward(f"{part}.downwardAPI", source.get("downwardAPI") or {}, spec)


def _source(path: str, source: Document, secret_name: str, objects: Objects) -> Iterator[str]:
    """Yield the ConfigMap or Secret of a volume that does not exist, or its keys."""
    for field, kind, name in (("configMap", CONFIG_MAP, "name"), ("secret", SECRET, secret_name)):
        wanted = source.get(field)
        if wanted is None or wanted.get("optional"):
            continue
        known = objects.get((kind, str(wanted.get(name))))
        if known is None:
            yield f"{path}.{field}: {_not_found(kind, wanted.get(name))}"
            continue
        keys = {key for part in FIELDS[kind] for key in known.get(part) or ()}
        for index, item in enumerate(wanted.get("items") or ()):
            if item.get("key") not in keys:
                yield f"{path}.{field}.items[{index}]: {_no_key(kind, wanted.get(name), item.get('key'))}"


def _downward(path: str, source: Document, spec: Document) -> Iterator[str]:
    for index, item in enumerate(source.get("items") or ()):
        if reference := item.get("resourceFieldRef"):
            yield from _resource(f"{path}.items[{index}].resourceFieldRef", reference, spec)


def _containers(spec: Document, objects: Objects) -> Iterator[str]:
    yield from _resources("spec.resources", spec.get("resources") or {})
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or ()):
            path = f"spec.{part}[{index}]"
            yield from _resources(f"{path}.resources", container.get("resources") or {})
            for number, source in enumerate(container.get("envFrom") or ()):
                yield from _all_keys(f"{path}.envFrom[{number}]", source, objects)
            for number, entry in enumerate(container.get("env") or ()):
                yield from _variable(f"{path}.env[{number}]", entry, spec, objects)


def _all_keys(path: str, source: Document, objects: Objects) -> Iterator[str]:
    for field, kind in (("configMapRef", CONFIG_MAP), ("secretRef", SECRET)):
        wanted = source.get(field)
        if wanted and not wanted.get("optional") and (kind, wanted.get("name")) not in objects:
            yield f"{path}.{field}: {_not_found(kind, wanted.get('name'))}"


def _variable(path: str, entry: Document, spec: Document, objects: Objects) -> Iterator[str]:
    source = entry.get("valueFrom")
    if source is None:
        return
    given = [key for key, value in source.items() if value is not None]
    if len(given) != 1:
        yield f"{path}.valueFrom: Invalid value: must specify exactly one source"
    elif entry.get("value"):
        yield f"{path}.valueFrom: Invalid value: may not be specified when `value` is not empty"
    elif given == ["fieldRef"]:
        wanted = str(source["fieldRef"].get("fieldPath"))
        if not (wanted in OF_POD or SUBSCRIPT.fullmatch(wanted)):
            listed = ", ".join(OF_POD)
            yield f"{path}.valueFrom.fieldRef.fieldPath: Unsupported value: {wanted}: supported values: {listed}"
    elif given == ["resourceFieldRef"]:
        yield from _resource(f"{path}.valueFrom.resourceFieldRef", source["resourceFieldRef"], spec)
    elif given == ["fileKeyRef"]:
        yield f"{path}.valueFrom.fileKeyRef: {NOT_WRITTEN}"
    else:
        yield from _key(f"{path}.valueFrom.{given[0]}", given[0], source[given[0]], objects)


def _key(path: str, field: str, wanted: Document, objects: Objects) -> Iterator[str]:
    """Yield the key that does not exist; a variable does not get the `binaryData` of a ConfigMap."""
    kind = CONFIG_MAP if field == "configMapKeyRef" else SECRET
    known = objects.get((kind, str(wanted.get("name"))))
    if wanted.get("optional"):
        return
    if known is None:
        yield f"{path}: {_not_found(kind, wanted.get('name'))}"
    elif not any(wanted.get("key") in (known.get(part) or ()) for part in FIELDS[kind] if part != "binaryData"):
        yield f"{path}: {_no_key(kind, wanted.get('name'), wanted.get('key'))}"


def _resource(path: str, reference: Document, spec: Document) -> Iterator[str]:
    name, found = str(reference.get("resource")), RESOURCE.fullmatch(str(reference.get("resource")))
    if found is None:
        yield f"{path}.resource: Unsupported value: {name}: supported are limits and requests of {RESOURCES}"
        return
    known = [item["name"] for part in ("containers", "initContainers") for item in spec.get(part) or ()]
    if (container := reference.get("containerName")) and container not in known:
        yield f"{path}.containerName: Not found: {container}"
    divisor = reference.get("divisor")
    amount = parse_quantity(divisor)
    if divisor is not None and (amount is None or (amount and amount not in DIVISORS[found[2] == CPU])):
        yield f"{path}.divisor: Invalid value: {divisor}: must be one, or one with a suffix of the resource"


def _resources(path: str, resources: Document) -> Iterator[str]:
    limits = resources.get("limits") or {}
    for part in ("limits", "requests"):
        for name, value in (resources.get(part) or {}).items():
            yield from _amount(f"{path}.{part}[{name}]", value, whole="/" in name)
            limit, amount = parse_quantity(limits.get(name)), parse_quantity(value)
            if limit is not None and amount is not None and amount > limit:
                most = f"must be less than or equal to {name} limit of {limits[name]}"
                yield f"{path}.requests: Invalid value: {value}: {most}"


def _amount(path: str, value: object, *, whole: bool = False) -> Iterator[str]:
    if value is None:
        return
    amount = parse_quantity(value)
    if amount is None:
        yield f"{path}: Invalid value: {value!s:.{SHOWN}}: must be a quantity, such as 500m or 1Gi"
    elif amount < 0:
        yield f"{path}: Invalid value: {value}: must be greater than or equal to 0"
    elif amount > MAX_AMOUNT:
        yield f"{path}: Invalid value: {value}: must be less than or equal to {MAX_AMOUNT}"
    elif whole and amount % 1:
        yield f"{path}: Invalid value: {value}: must be an integer"


def _not_found(kind: str, name: object) -> str:
    return f"Not found: {kind} {name}; add it to the file"


def _no_key(kind: str, name: object, key: object) -> str:
    return f"Not found: {kind} {name} has no key {key}; add it to the file"

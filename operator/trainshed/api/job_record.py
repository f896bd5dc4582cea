"""The record of a finished job: a job document that is small, without what a user may have to keep to themselves.

It has the shape of a job, so that whatever shows a job shows a record: metadata, what was asked for, the status; and in
`record` what no job has. It never has values of environment variables, commands or arguments.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from datetime import datetime
from typing import Any

import msgspec
import orjson

from . import training
from .coerce import as_mapping, as_sequence, encodable, format_time, parse_text, parse_time, truncate_end, without_none
from .foreign_text import one_line
from .framework import Framework
from .job import Document, Job, ReplicaGroup
from .quantities import MAX_LENGTH
from .status import Status
from .status_codec import status_document
from .trainer_status import TrainerStatus

#: The form of this module; a reader ignores fields that it does not know.
FORM = 1
#: The most bytes of a record, and of a text that is read as one: a later version may write larger ones.
MAX_RECORD_BYTES, MAX_READ_BYTES = 8 * 1024, 64 * 1024
#: The most points of the curve, containers of a replica, resources and names of variables of a container.
MAX_POINTS, MAX_CONTAINERS, MAX_RESOURCES, MAX_VARIABLES = 60, 8, 16, 48
#: The most bytes of an image, of another name, and of a message in a record that would be too large.
MAX_IMAGE_BYTES, MAX_TEXT_BYTES, SHORT_MESSAGE_BYTES = 512, 253, 240
#: What the status has for the operator alone, or for as long as pods exist.
TRANSIENT = ("podsPendingReplacement", "scaledDownTo", "lastReconcileTime", "attempts", "retry", "waiting", "ending")
#: Messages in the status.
MESSAGES = frozenset(("message", "terminationMessage"))


class Point(msgspec.Struct, frozen=True):
    """A point of the curve: the seconds since the job was created, and what the training reported then."""

    seconds: int
    step: int | None = None
    value: float | None = None


class Curve(msgspec.Struct, frozen=True):
    """How a training advanced: the name of its main metric, and points by time, `MAX_POINTS` at most."""

    metric: str = ""
    points: tuple[Point, ...] = ()

    def then(self, report: TrainerStatus, created: datetime) -> Curve:
        """Return the curve with one more point, and half as many if there is no room for it."""
        metric = self.metric or main_metric(report)
        value = next((_number(text) for name, text in report.metrics if name == metric), None)
        point = Point(max(0, int((report.updated - created).total_seconds())), report.step, value)
        if point.step is None and point.value is None:
            return self
        points = self.points
        if points and points[-1].seconds >= point.seconds:
            points = points[:-1]
        elif len(points) == MAX_POINTS:
            points = _thinned(points)
        return Curve(metric, (*points, point))


def _thinned(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """Return about half of the points, so far from each other that those of all times are as dense; the ends stay."""
    gap = 2 * (points[-1].seconds - points[0].seconds) / len(points)
    kept = list(points[:1])
    for point in points[1:-1]:
        if point.seconds - kept[-1].seconds >= gap and points[-1].seconds - point.seconds >= gap / 2:
            kept.append(point)
    return (*kept, points[-1])


def main_metric(report: TrainerStatus) -> str:
    """Return the name of the metric that tells most and is a number; empty without one."""
    return training.main_metric(name for name, text in report.metrics if _number(text) is not None)


class Versions(msgspec.Struct, frozen=True):
    """The versions of the operator and of Kubernetes, each empty if it is not known."""

    operator: str = ""
    kubernetes: str = ""


class Ended(msgspec.Struct, frozen=True):
    """A job at its end: `status` is the stored one, `deleted` when a job was deleted before it ended."""

    job: Job
    framework: Framework
    status: Status
    curve: Curve = Curve()
    deleted: datetime | None = None

    @property
    def time(self) -> datetime | None:
        """When the job ended, or was deleted; None if it goes on."""
        return self.deleted or (self.status.completion or _terminal(self.status) if self.status.over else None)

    @property
    def settled(self) -> bool:
        """Whether nothing changes any more: the pods have ended as well, as far as they are counted."""
        return self.deleted is not None or self.status.time_spent.phase is None


def _terminal(status: Status) -> datetime | None:
    return status.decisive.changed if status.decisive else None


def encode(ended: Ended, versions: Versions = Versions(), known: str = "") -> str:  # noqa: B008 - immutable
    """Return the record as JSON of at most `MAX_RECORD_BYTES`; what matters least is left out first.

    `known` is an earlier record of the job, whose curve is kept if it has more points: an operator that has started
    since then knows less of it.
    """
    before = parse_curve(as_mapping(_decoded(known).get("record")).get("curve"))
    curve = before if len(before.points) > len(ended.curve.points) else ended.curve
    whole = _document(ended, curve, versions)
    text = _json(whole)
    for reduce in REDUCTIONS:
        if len(text) > MAX_RECORD_BYTES:
            reduce(whole)
            text = _json(whole)
    return text.decode()


def _json(document: Document) -> bytes:
    return orjson.dumps(document)


def _document(ended: Ended, curve: Curve, versions: Versions) -> dict[str, Any]:
    job, status = ended.job, deepcopy(status_document(ended.status))  # it is shared, and reduced below
    ready = sum(counts.ready for counts in ended.status.replica_statuses.values())
    columns = {"ready": f"{ready}/{job.size}", "progress": ended.status.progress}
    for field in TRANSIENT:
        status.pop(field, None)
    for counts in as_mapping(status.get("replicaStatuses")).values():
        counts.pop("selector", None)
    status["state"] = _text(ended.status.current_state, 64)
    spec = _spec(job, ended.framework)
    return {
        "apiVersion": job.api_version,
        "kind": job.kind,
        "metadata": _filled(
            name=_text(job.name),
            namespace=_text(job.namespace),
            uid=_text(job.uid),
            creationTimestamp=format_time(job.created) if job.created else "",
            generation=min(job.generation, 2**53),
        ),
        "spec": spec,
        "status": {**status, **_filled(**columns)},
        "record": _filled(
            form=FORM,
            ended=format_time(ended.time) if ended.time else "",
            deletedBeforeItsEnd=ended.deleted is not None,
            settled=ended.settled,
            specDigest=f"sha256:{hashlib.sha256(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)).hexdigest()}",
            curve=_curve_document(curve),
            operator=_text(versions.operator, 64),
            kubernetes=_text(versions.kubernetes, 64),
        ),
    }


def _curve_document(curve: Curve) -> dict[str, Any]:
    points = [[point.seconds, point.step, point.value] for point in curve.points[-MAX_POINTS:]]
    return {"metric": _text(curve.metric, 64), "points": points} if points else {}


def _filled(**found: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    return {key: value for key, value in found.items() if value not in (None, "", False, [], {})}


def _text(text: str, most: int = MAX_TEXT_BYTES) -> str:
    return truncate_end(one_line(encodable(text[: 4 * most])), most)


def _spec(job: Job, framework: Framework) -> dict[str, Any]:
    """Return what was asked for, in the shape of the spec."""
    policy = job.policy
    limits = {
        "cleanPodPolicy": policy.clean_pods.value,
        "ttlSecondsAfterFinished": policy.ttl,
        "activeDeadlineSeconds": policy.deadline,
        "backoffLimit": policy.backoff_limit,
    }
    groups = {_text(group.role, 64): _group(group, framework) for group in job.groups[:16]}
    return {framework.field: groups, "runPolicy": without_none(limits)}


def _group(group: ReplicaGroup, framework: Framework) -> dict[str, Any]:
    spec = as_mapping(group.template.get("spec"))
    containers = [as_mapping(item) for item in as_sequence(spec.get("containers"))]
    own = group.container or framework.container.name
    first = sorted(containers, key=lambda item: item.get("name") != own)[:MAX_CONTAINERS]
    return {
        "replicas": group.count,
        "restartPolicy": group.restart_policy.value,
        "template": {"spec": {"containers": [_container(item) for item in first]}},
    }


def _container(container: Document) -> dict[str, Any]:
    resources = as_mapping(container.get("resources"))
    amounts = {kind: _amounts(as_mapping(resources.get(kind))) for kind in ("requests", "limits")}
    names = [parse_text(as_mapping(item).get("name")) for item in as_sequence(container.get("env"))[:MAX_VARIABLES]]
    return _filled(
        name=_text(parse_text(container.get("name")), 64),
        image=_text(parse_text(container.get("image")), MAX_IMAGE_BYTES),
        resources=_filled(**amounts),
        env=[{"name": _text(name, 64)} for name in names if name],
    )


def _amounts(found: Document) -> dict[str, Any]:
    known = list(found.items())[:MAX_RESOURCES]
    return {_text(str(name), 64): _text(str(amount), MAX_LENGTH) for name, amount in known}


def _halve_curve(document: dict[str, Any]) -> None:
    if curve := document["record"].get("curve"):
        curve["points"] = curve["points"][::2]


def _drop(*path: str) -> Callable[[dict[str, Any]], None]:
    def reduce(document: dict[str, Any]) -> None:
        *above, last = path
        inner: Any = document
        for part in above:
            inner = inner[part]
        inner.pop(last, None)

    return reduce


def _last(field: str, most: int) -> Callable[[dict[str, Any]], None]:
    def reduce(document: dict[str, Any]) -> None:
        if found := document["status"].get(field):
            document["status"][field] = found[-most:]

    return reduce


def _few_metrics(document: dict[str, Any]) -> None:
    trainer = document["status"].get("trainerStatus", {})
    if "metrics" in trainer:
        trainer["metrics"] = trainer["metrics"][:4]


def _short_messages(document: dict[str, Any]) -> None:
    for part in _mappings(document["status"]):
        for field in MESSAGES & part.keys():
            part[field] = truncate_end(part[field], SHORT_MESSAGE_BYTES)


def _short_status(document: dict[str, Any]) -> None:
    """Keep what a table shows, and of each text little."""
    kept = ("conditions", "failure", "startTime", "completionTime", "state", "restarts", "ready", "timeSpent")
    document["status"] = {field: value for field, value in document["status"].items() if field in kept}
    for part in _mappings(document["status"]):
        for field, value in part.items():
            part[field] = truncate_end(value, SHORT_MESSAGE_BYTES) if isinstance(value, str) else value


def _mappings(found: object) -> Iterator[dict[str, Any]]:
    """Yield a mapping of the status and those within it; it is no deeper than its schema."""
    inner: Iterable[object] = ()
    if isinstance(found, dict):
        yield found
        inner = found.values()
    elif isinstance(found, list):
        inner = found
    for item in inner:
        yield from _mappings(item)


def _containers(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    groups = (group for roles in document["spec"].values() for group in roles.values() if isinstance(group, dict))
    for group in groups:
        yield from group.get("template", {}).get("spec", {}).get("containers", ())


def _drop_variables(document: dict[str, Any]) -> None:
    for container in _containers(document):
        container.pop("env", None)


def _drop_sidecars(document: dict[str, Any]) -> None:
    for roles in document["spec"].values():
        for group in (group for group in roles.values() if isinstance(group, dict)):
            del group["template"]["spec"]["containers"][1:]


def _short_texts_of_containers(document: dict[str, Any]) -> None:
    for container in _containers(document):
        container.pop("resources", None)
        container["image"] = truncate_end(container.get("image", ""), 128)


#: What is given up, one after the other, until a record is small enough; what is left then is small enough always.
REDUCTIONS: tuple[Callable[[dict[str, Any]], None], ...] = (
    _drop("status", "stragglers"),
    _drop_variables,
    _halve_curve,
    _few_metrics,
    _last("recentRestarts", 5),
    _short_messages,
    _drop_sidecars,
    _halve_curve,
    _last("recentRestarts", 2),
    _drop("status", "replicaStatuses"),
    _short_texts_of_containers,
    _drop("record", "curve"),
    _drop("status", "recentRestarts"),
    _drop("spec"),
    _short_status,
)


def decode(text: str, namespace: str) -> dict[str, Any] | None:
    """Return the record that a text is, as a job of this namespace; None if it is none, or too large.

    Anyone who may write ConfigMaps in the namespace may have written it: no value can be relied on.
    """
    found = _decoded(text)
    metadata, record = as_mapping(found.get("metadata")), as_mapping(found.get("record"))
    if not (record and parse_text(found.get("kind")) and parse_text(metadata.get("name"))):
        return None
    kept = {part: as_mapping(found.get(part)) for part in ("spec", "status")}
    words = {part: parse_text(found.get(part)) for part in ("apiVersion", "kind")}
    return {**words, "metadata": {**metadata, "namespace": namespace}, **kept, "record": record}


def _decoded(text: str) -> Document:
    if not text or len(text) > MAX_READ_BYTES:
        return {}
    try:
        return as_mapping(orjson.loads(text))
    except orjson.JSONDecodeError:
        return {}


def ended_at(document: Document) -> datetime | None:
    """Return when the job of a record ended."""
    return parse_time(as_mapping(document.get("record")).get("ended"))


def was_deleted(document: Document) -> bool:
    """Return whether the job of a record was deleted before its end."""
    return as_mapping(document.get("record")).get("deletedBeforeItsEnd") is True


def parse_curve(document: object) -> Curve:
    """Return the curve of a record, as far as it is one: points with rising times."""
    found = as_mapping(document)
    points: list[Point] = []
    for item in as_sequence(found.get("points"))[:MAX_POINTS]:
        values = (*as_sequence(item), None, None, None)[:3]
        seconds, step, value = _whole(values[0]), _whole(values[1]), _finite(values[2])
        if seconds is not None and (not points or seconds > points[-1].seconds):
            points.append(Point(seconds, step, value))
    return Curve(_text(parse_text(found.get("metric")), 64), tuple(points))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53 else None


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and abs(value) < 1e300 else None  # noqa: PLR2004


def _number(text: str) -> float | None:
    return _finite(training.measure(text))

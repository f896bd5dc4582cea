"""Makes the plan of a job: asks the API server in dry runs, and compares what would be made with the surroundings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from trainshed.api.coerce import as_mapping, parse_text
from trainshed.api.job import QUEUE_LABEL, Document
from trainshed.client import UNCALLED, ApiError, Forbidden, NotFound, Unavailable
from trainshed.client.job_writer import JobWriter
from trainshed.client.lists import DOCUMENTS
from trainshed.client.transport import AlreadyExists, Path, RestClient
from trainshed.fit import kueue_queues, limit_ranges, needed_objects, packing, quotas
from trainshed.fit.assessment import Assessment, Fit
from trainshed.fit.demands import RoleDemand, container_amounts, containers
from trainshed.rendering import RenderedObjects
from trainshed.views import refusals
from trainshed.views.diagnosis import Unreadable
from trainshed.views.forecast import Forecast

from .permitted import readable, right
from .submissions import UNANSWERED, Submission, refusal
from .surroundings import CORE, Surroundings, assessed, class_of, unknown

ADMISSION, PRIORITY = "Admission", "Priority"
#: A label of a namespace: the level of Pod Security that its pods must have.
LEVEL, FREE = "pod-security.kubernetes.io/enforce", "privileged"
#: Words of refusals by quotas, whose figures are said elsewhere, and by webhooks that know no dry run.
OF_QUOTAS, NO_DRY_RUN = ("exceeded quota", "failed quota"), "does not support dry run"
SUSPENDED = "the job is suspended: nothing is made before it is resumed"
ELSEWHERE = "runPolicy.managedBy names another controller: Trainshed makes nothing of this"


class Made(msgspec.Struct, frozen=True):
    """What would be made: the first pod of each role, the names of all, and the other objects."""

    bodies: dict[str, Document]
    names: dict[str, list[str]]
    others: list[Document]

    @property
    def objects(self) -> tuple[tuple[str, str], ...]:
        """The kinds and names of the other objects."""
        return tuple((item["kind"], item["metadata"]["name"]) for item in self.others)


class PodAnswer(msgspec.Struct, frozen=True):
    """What the API server says to the pods of a role: the pod as it would store it, None if it does not accept it."""

    pod: Document | None
    assessments: tuple[Assessment, ...] = ()


def made(created: RenderedObjects) -> Made:
    """Return what would be made for a job; of the pods of a role only the first one is kept."""
    names = {role: [action.name for action in pods] for role, pods in created.pods.items()}
    firsts = {pods[0] for pods in names.values()}
    bodies = {item["metadata"]["name"]: item for item in created.outer_pods if item["metadata"]["name"] in firsts}
    return Made({role: bodies[pods[0]] for role, pods in names.items()}, names, list(created.others))


def refused(job: Submission, created: RenderedObjects, problems: Iterable[str]) -> Forecast:
    """Return the plan of a job that the API server would refuse without looking at the cluster."""
    found = tuple(Assessment(Fit.REFUSED, ADMISSION, problem) for problem in problems)
    return Forecast(job.manifest.place, job.kind.kind, job.namespace, created.job.name, (), (), found)


async def forecast(rest: RestClient, around: Surroundings, job: Submission, created: RenderedObjects) -> Forecast:
    """Return the plan of a job; raises an `ApiError` if the API server does not answer at all."""
    namespace, what = job.namespace, made(created)
    admission, stored = await _admitted(rest, job)
    demands, pods = await _demands(rest, around, namespace, what)
    labels = as_mapping(as_mapping((stored or job.manifest.document).get("metadata")).get("labels"))
    queue = parse_text(labels.get(QUEUE_LABEL))
    found = (
        *admission,
        *pods,
        *await assessed(needed_objects.PART, around.needed(namespace, _references(what, demands))),
        *await assessed(limit_ranges.PART, around.limited(namespace, demands)),
        *await assessed(quotas.PART, around.within_quotas(namespace, demands, _counts(job, what))),
        *await assessed(PRIORITY, _priorities(around, demands)),
        *(await assessed(kueue_queues.PART, around.in_queue(namespace, queue, demands)) if queue else ()),
        *await assessed(packing.PART, around.on_nodes(demands)),
    )
    policy, place = created.job.policy, job.manifest.place
    note = ELSEWHERE if policy.managed_elsewhere else SUSPENDED if policy.suspend and not queue else ""
    once = tuple(dict.fromkeys(found))
    return Forecast(place, job.kind.kind, namespace, created.job.name, tuple(demands), what.objects, once, note)


async def _admitted(rest: RestClient, job: Submission) -> tuple[list[Assessment], Document | None]:
    """Return what the API server says to the job, and the job as it would store it, if it does."""
    try:
        stored = await JobWriter(rest, dry_run=True).create(job.kind, job.namespace, job.document())
    except Unavailable as error:
        if error.reason != UNCALLED:
            raise
        return [Assessment(Fit.REFUSED, ADMISSION, refusal(job, error, is_dry_run=True))], None
    except ApiError as error:
        if _is_denied(error):
            wanted = Path(job.kind.prefix, job.kind.plural, job.namespace)
            lacking = unknown(ADMISSION, "whether the API server accepts the job", Unreadable(right("create", wanted)))
            return [lacking, *await assessed(ADMISSION, _namespace(rest, job.namespace))], None
        if NO_DRY_RUN in str(error):
            return [Assessment(Fit.UNKNOWN, ADMISSION, f"whether the API server accepts the job: {error}")], None
        return [Assessment(Fit.REFUSED, ADMISSION, refusal(job, error, is_dry_run=True))], None
    return [Assessment(Fit.OK, ADMISSION, "the API server accepts the job")], stored


def _is_denied(error: ApiError) -> bool:
    """Return whether the caller lacks the right, rather than that the object is refused."""
    return isinstance(error, Forbidden) and bool(refusals.DENIED.search(str(error)))


async def _namespace(rest: RestClient, name: str) -> list[Assessment]:
    """Return what is wrong with a namespace in which the caller may create nothing."""
    found = await readable(rest, Path(CORE, "namespaces", "", name))
    if isinstance(found, Unreadable):
        return [unknown(ADMISSION, f"whether there is a namespace {name}", found)]
    if found is None:
        return [Assessment(Fit.REFUSED, ADMISSION, f"there is no namespace {name}")]
    if as_mapping(found.get("status")).get("phase") == "Terminating":
        return [Assessment(Fit.REFUSED, ADMISSION, f"namespace {name} is being deleted")]
    level = parse_text(as_mapping(as_mapping(found.get("metadata")).get("labels")).get(LEVEL))
    if level in ("", FREE):
        return []
    return [
        Assessment(
            Fit.UNKNOWN, ADMISSION, f"whether the pods meet level {level} of Pod Security, which {name} enforces"
        )
    ]


async def _demands(
    rest: RestClient, around: Surroundings, namespace: str, what: Made
) -> tuple[list[RoleDemand], list[Assessment]]:
    """Return what the pods of each role ask for, as the API server would store them, and what it says to them."""
    try:
        known = await around.quotas(namespace)
        limits = await around.limits(namespace)
    except ApiError:  # of which their own parts tell
        known, limits = Unreadable(""), []
    accounts = {item["metadata"]["name"] for item in what.others if item["kind"] == needed_objects.ACCOUNT}
    tells_quotas = isinstance(known, Unreadable)
    answers = await asyncio.gather(
        *(
            _answered(rest, namespace, _with_account(body, accounts), tells_quotas=tells_quotas)
            for body in what.bodies.values()
        )
    )
    demands, found = list[RoleDemand](), list[Assessment]()
    for (role, body), answer in zip(what.bodies.items(), answers, strict=True):
        spec = as_mapping((answer.pod or {}).get("spec"))
        priority = spec.get("priority")
        own = spec or limit_ranges.defaulted(body["spec"], [] if isinstance(limits, Unreadable) else limits)
        demands.append(RoleDemand(role, tuple(what.names[role]), own, priority if isinstance(priority, int) else None))
        found += answer.assessments
        if answer.pod is None:
            found += _overcommitted(own, body["metadata"]["name"])
    if what.bodies and all(answer.pod for answer in answers):
        found.append(
            Assessment(Fit.OK, ADMISSION, f"the API server accepts a pod of {' and one of '.join(what.bodies)}")
        )
    return demands, found


def _overcommitted(spec: Document, name: str) -> Iterator[Assessment]:
    """Yield what the API server refuses in a pod that it was not asked about: devices without an equal limit."""
    for container in containers(spec):
        limits = container_amounts(container, "limits")
        for resource, amount in container_amounts(container, "requests").items():
            if "/" in resource and limits.get(resource) != amount:
                own = parse_text(container.get("name"))
                text = f"pod {name}: container {own} requests {resource} without an equal limit"
                yield Assessment(Fit.REFUSED, ADMISSION, text)


def _with_account(body: Document, accounts: set[str]) -> Document:
    """Return a pod without the ServiceAccount that would be made for it: a dry run does not make it."""
    spec = body["spec"]
    if spec.get("serviceAccountName") not in accounts:
        return body
    return {**body, "spec": {key: value for key, value in spec.items() if key != "serviceAccountName"}}


async def _answered(rest: RestClient, namespace: str, body: Document, *, tells_quotas: bool) -> PodAnswer:
    """Return what the API server says to a pod."""
    path, name = Path(CORE, "pods", namespace), body["metadata"]["name"]
    try:
        pod = DOCUMENTS.answer(await rest.call("POST", path, body, {"dryRun": "All"}))
    except AlreadyExists:
        text = f"a pod {name} exists already, so that the job cannot have its own"
        return PodAnswer(None, (Assessment(Fit.REFUSED, ADMISSION, text),))
    except NotFound:  # the namespace, of which the answer about the job tells
        return PodAnswer(None)
    except ApiError as error:
        return PodAnswer(None, tuple(_not_accepted(error, path, name, tells_quotas=tells_quotas)))
    return PodAnswer(pod)


def _not_accepted(error: ApiError, path: Path, name: str, *, tells_quotas: bool) -> Iterator[Assessment]:
    text = str(error)
    if _is_denied(error):
        yield unknown(
            ADMISSION, "whether the API server and Pod Security accept the pods", Unreadable(right("create", path))
        )
    elif error.reason == UNCALLED:
        yield Assessment(Fit.REFUSED, ADMISSION, f"pod {name}: {text}. {UNANSWERED}")
    elif isinstance(error, Unavailable) or NO_DRY_RUN in text:
        yield Assessment(Fit.UNKNOWN, ADMISSION, f"whether the API server accepts pod {name}: {text}")
    elif any(words in text for words in OF_QUOTAS):
        if tells_quotas:
            yield Assessment(Fit.LACKING, quotas.PART, text)
    else:
        yield Assessment(Fit.REFUSED, ADMISSION, f"pod {name}: {text}")


def _references(what: Made, demands: Iterable[RoleDemand]) -> Iterator[tuple[needed_objects.Reference, str]]:
    """Yield the objects that pods name and that are not made for the job, with the role of the pods.

    The API server looks itself for the classes of pods that it accepts, and gives these their priority.
    """
    own, accepted = set(what.objects), {demand.role for demand in demands if demand.priority is not None}
    for role, body in what.bodies.items():
        for one in needed_objects.references(body["spec"]):
            if one not in own and not (role in accepted and one[0] in needed_objects.CLASSES):
                yield one, role


def _counts(job: Submission, what: Made) -> dict[str, int]:
    """Return the numbers of objects as quotas count them."""
    counts = {f"count/{job.kind.plural}.{job.manifest.head[0].partition('/')[0]}": 1}
    for item in what.others:
        plural, group = f"{item['kind'].lower()}s", item["apiVersion"].rpartition("/")[0]
        for name in (f"count/{plural}.{group}",) if group else (plural, f"count/{plural}"):
            counts[name] = counts.get(name, 0) + 1
    return counts


async def _priorities(around: Surroundings, demands: list[RoleDemand]) -> list[Assessment]:
    """Return the priorities of the pods; those that no dry run has shown are set in `demands`."""
    said: dict[str, list[str]] = {}
    for number, demand in enumerate(demands):
        if demand.priority is None:
            classes = await around.priority_classes()
            if isinstance(classes, Unreadable):
                return [unknown(PRIORITY, "which priority the pods have", classes)]
            demands[number] = _with_priority(demand, classes)
        if text := _priority(demands[number]):
            said.setdefault(text, []).append(demand.role)
    return [Assessment(Fit.OK, PRIORITY, f"{', '.join(roles)}: {text}") for text, roles in said.items()]


def _with_priority(demand: RoleDemand, classes: Sequence[Document]) -> RoleDemand:
    """Return a role with the priority of its class, or else of the one for all pods."""
    name = parse_text(demand.spec.get("priorityClassName"))
    own = class_of(name, classes)
    if not own and name:  # it does not exist, or is of Kubernetes itself
        return demand
    policy = parse_text(own.get("preemptionPolicy")) or "PreemptLowerPriority"
    found = parse_text(as_mapping(own.get("metadata")).get("name"))
    spec = {**demand.spec, "priorityClassName": found, "preemptionPolicy": policy}
    value = own.get("value")
    return RoleDemand(demand.role, demand.names, spec, value if isinstance(value, int) else 0)


def _priority(demand: RoleDemand) -> str:
    name = parse_text(demand.spec.get("priorityClassName"))
    if not name or demand.priority is None:
        return ""
    never = demand.spec.get("preemptionPolicy") == "Never"
    may = "preempt no other pods" if never else "may preempt pods of a lower one"
    return f"priority {demand.priority} of PriorityClass {name}; they {may}"

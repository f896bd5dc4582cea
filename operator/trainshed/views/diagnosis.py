"""What `trainshed doctor` says about an installation: pure functions from what was read to sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from trainshed.api import gang
from trainshed.api.coerce import as_mapping, as_sequence, parse_count, parse_text, parse_time
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.client import ApiError, Unavailable
from trainshed.crd import definition
from trainshed.plan.messages.phrases import plural, share

from .durations import human
from .rows import listed, name_of, namespace_of

#: The oldest Kubernetes that is supported.
OLDEST = (1, 30)
VERSION_LABEL = "app.kubernetes.io/version"
#: The most Deployments that are named.
MOST_DEPLOYMENTS = 8
INSTALL = "docs/operations.md says how to install it"
UPDATE = "update it with trainshed crds | kubectl apply --server-side --force-conflicts -f -"
CREATES = "the chart creates it (progress.endpoint.enabled)"
LOGS = "kubectl describe and kubectl logs of its pods say why"


class Verdict(StrEnum):
    """What was found about a part of the installation; UNKNOWN where the caller may not look."""

    OK = "OK"
    WARNING = "WARNING"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"


class Diagnosis(msgspec.Struct, frozen=True):
    """The verdict about a part, and a sentence that says what to do unless all is well."""

    verdict: Verdict
    part: str
    message: str


class Unreadable(msgspec.Struct, frozen=True):
    """The caller may not read something; `right` is what the caller lacks."""

    right: str

    def of(self, part: str) -> Diagnosis:
        """Return what is said about the part."""
        return Diagnosis(Verdict.UNKNOWN, part, f"you are not permitted to look: {self.advice}")

    @property
    def advice(self) -> str:
        """What to ask for."""
        return f"ask for the right to {self.right}"


def definitions(found: Iterable[Document], frameworks: Sequence[Framework]) -> Iterator[Diagnosis]:
    """Yield how the CRDs of these kinds differ from those of this version; `found` are those of the cluster."""
    part = "CRDs"
    installed = {name_of(item): item for item in found}
    same = []
    for framework in frameworks:
        name = f"{framework.plural}.kubeflow.org"
        if name not in installed:
            message = (
                f"{name} is not installed, so there are no jobs of this kind; {UPDATE.replace('update', 'install')}"
            )
            yield Diagnosis(Verdict.WARNING, part, message)
            continue
        lacking, more = _differences(definition(framework), installed[name])
        if lacking:
            drops_status = any(path.startswith(".status.") for path in lacking)
            message = f"{name} is older, or of another operator: it lacks {_counted(lacking)}; {UPDATE}"
            yield Diagnosis(Verdict.FAILED if drops_status else Verdict.WARNING, part, message)
        elif more:
            message = f"{name} is newer than this trainshed: it has {_counted(more)} more; update trainshed here"
            yield Diagnosis(Verdict.WARNING, part, message)
        else:
            same.append(framework.kind)
    if same:
        yield Diagnosis(Verdict.OK, part, f"{', '.join(same)}: as in this version")


def _differences(own: Document, installed: Document) -> tuple[list[str], list[str]]:
    """Return the fields and rules that the installed CRD lacks, and those that it has in addition."""
    wanted, *_ = (dict.fromkeys(_parts(schema)) for _, schema in _schemas(own))
    version = as_sequence(as_mapping(own.get("spec")).get("versions"))[0]["name"]
    found = next((dict.fromkeys(_parts(schema)) for name, schema in _schemas(installed) if name == version), {})
    return [part for part in wanted if part not in found], [part for part in found if part not in wanted]


def _schemas(document: Document) -> Iterator[tuple[str, Document]]:
    for version in map(as_mapping, as_sequence(as_mapping(document.get("spec")).get("versions"))):
        yield parse_text(version.get("name")), as_mapping(as_mapping(version.get("schema")).get("openAPIV3Schema"))


def _parts(schema: Document, at: str = "") -> Iterator[str]:
    """Yield the paths of the fields of a schema, and its rules."""
    for rule in map(as_mapping, as_sequence(schema.get("x-kubernetes-validations"))):
        yield f"{at}: {rule.get('rule')}"
    for name, inner in as_mapping(schema.get("properties")).items():
        yield f"{at}.{name}"
        yield from _parts(as_mapping(inner), f"{at}.{name}")
    for field, mark in (("items", "[]"), ("additionalProperties", "[*]")):
        if inner := as_mapping(schema.get(field)):
            yield from _parts(inner, f"{at}{mark}")


def _counted(parts: Sequence[str]) -> str:
    first = parts[0].partition(": ")[0]
    what = f"a rule of {first or 'the job'}" if ": " in parts[0] else first
    return f"{len(parts)} {'field or rule' if len(parts) == 1 else 'fields or rules'}, such as {what}"


def deployments(items: Sequence[Document], version: str, *, confirmed: bool) -> Iterator[Diagnosis]:
    """Yield how the Deployments of operators are; `version` is that of this program.

    Those that are not `confirmed` may be those of any user: then one that is ready is enough.
    """
    is_any_ready = not confirmed and any(map(_ready, items))
    for item in items[:MOST_DEPLOYMENTS]:
        yield from _deployment(item, version, confirmed=confirmed, is_other_ready=is_any_ready)
    if more := items[MOST_DEPLOYMENTS:]:
        yield Diagnosis(
            Verdict.WARNING,
            "Operator",
            f"{plural(len(more), 'more Deployment')} {'has' if len(more) == 1 else 'have'} the label of the operator",
        )


def _ready(item: Document) -> int:
    return parse_count(as_mapping(item.get("status")).get("readyReplicas"))


def _wanted(item: Document) -> int:
    return parse_count(as_mapping(item.get("spec")).get("replicas", 1))


def _share(item: Document) -> str:
    return share(_ready(item), _wanted(item), "replica")


def _deployment(item: Document, version: str, *, confirmed: bool, is_other_ready: bool) -> Iterator[Diagnosis]:
    part, where = "Operator", f"Deployment {namespace_of(item)}/{name_of(item)}"
    ready = _ready(item)
    state = f"{where}: {_share(item)} ready"
    if not ready and not is_other_ready:
        yield Diagnosis(Verdict.FAILED, part, f"{state}, so that no job is started, restarted or cleaned up; {LOGS}")
    elif not ready or ready < _wanted(item):
        yield Diagnosis(Verdict.WARNING, part, f"{state}; {LOGS}")
    else:
        yield Diagnosis(Verdict.OK, part, state)
    if not confirmed:
        message = (
            f"no ClusterRoleBinding of {where} is known, so any user may have created it: right only for an operator of"
            " single namespaces"
        )
        yield Diagnosis(Verdict.WARNING, part, message)
    labels = as_mapping(as_mapping(item.get("metadata")).get("labels"))
    its = parse_text(labels.get(VERSION_LABEL)) or "unknown"
    # What was not released has the version `dev` in manifests, and a number of commits in a package.
    alike = its == version or (its == "dev" and ".dev" in version)
    advice = "" if alike else "; use the same version here and there"
    message = f"the operator is {its}, trainshed here is {version}{advice}"
    yield Diagnosis(Verdict.WARNING if advice else Verdict.OK, "Versions", message)


def kubernetes(version: Document) -> Diagnosis:
    """Return whether the API server is new enough."""
    text = parse_text(version.get("gitVersion"))
    found = re.match(r"v(\d+)\.(\d+)", text)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        message = f"Kubernetes {text} is too old: {'.'.join(map(str, OLDEST))} or newer is needed"
        return Diagnosis(Verdict.FAILED, "Versions", message)
    return Diagnosis(Verdict.OK, "Versions", f"Kubernetes {text}")


def leader(name: str, lease: Document | None, later: Document | None, now: datetime) -> Diagnosis:
    """Return whether a leader holds the Lease: renewed of late by this machine's clock, or between two reads."""
    part, spec = "Leader", as_mapping((lease or {}).get("spec"))
    holder, renewed = parse_text(spec.get("holderIdentity")), parse_time(spec.get("renewTime"))
    if not holder or renewed is None:
        message = f"no replica holds the Lease {name}, so that no job is started, restarted or cleaned up; {LOGS}"
        return Diagnosis(Verdict.FAILED, part, message)
    age = (now - renewed).total_seconds()
    if age <= parse_count(spec.get("leaseDurationSeconds")):
        return Diagnosis(Verdict.OK, part, f"{holder} holds the Lease {name}, renewed {human(age)} ago")
    if as_mapping((later or {}).get("spec")).get("renewTime") != spec.get("renewTime"):
        message = f"{holder} renews the Lease {name}, but its clock and the one here differ; set them right"
        return Diagnosis(Verdict.WARNING, part, message)
    message = f"{holder} has not renewed the Lease {name} for {human(age)}: the leader is gone or cannot write; {LOGS}"
    return Diagnosis(Verdict.FAILED, part, message)


#: What to do about a webhook, or an API server, that does not answer.
UNANSWERED = (
    "If the message names a webhook, the program behind it does not run: its pods say why, and without that program an "
    "administrator deletes its webhook configuration."
)


def validation(
    valid: ApiError | None, invalid: ApiError | None, annotated: ApiError | None, kind: str
) -> Iterator[Diagnosis]:
    """Yield what the answers to dry runs say: of a valid job, one with a fault, one with an unknown annotation."""
    part = "Validation"
    if isinstance(valid, Unavailable):
        message = f"no job can be created, as a webhook or the API server does not answer: {valid}. {UNANSWERED}"
        yield Diagnosis(Verdict.FAILED, part, message)
        return
    if valid is not None:
        yield Diagnosis(Verdict.WARNING, part, f"the smallest {kind} is refused here, perhaps as intended: {valid}")
    if invalid is None:
        message = f"the API server accepts a {kind} with a fault: its CRD has no rules; {UPDATE}"
        yield Diagnosis(Verdict.FAILED, part, message)
    elif valid is None:
        yield Diagnosis(Verdict.OK, part, f"a dry run of a {kind} is accepted, and one with a fault is refused")
    if valid is None and annotated is None:
        message = (
            "unknown annotations of Trainshed are accepted, and have no effect: the admission policy is not installed"
        )
        yield Diagnosis(Verdict.WARNING, part, f"{message} (annotationPolicy.enabled of the chart)")


def rights(denied: Mapping[str, Sequence[str]], namespace: str) -> Iterator[Diagnosis]:
    """Yield what the caller may do, from the rights that are denied, by what they are for."""
    for purpose, missing in denied.items():
        if missing:
            message = f"you may not {', '.join(missing)} in namespace {namespace}, to {purpose}; ask for the right"
            yield Diagnosis(Verdict.WARNING, "Rights", message)
        else:
            yield Diagnosis(Verdict.OK, "Rights", f"you may {purpose} in namespace {namespace}")


#: Gang schedulers by the API group that tells that they are there: the value of the operator's flag, and the name.
SCHEDULERS = {
    "scheduling.volcano.sh": (gang.VOLCANO, "Volcano"),
    "scheduling.run.ai": (gang.KAI, "KAI Scheduler"),
    "scheduling.x-k8s.io": ("", "the coscheduling plugin"),
}


def schedulers(groups: Iterable[str], flag: str | None) -> Iterator[Diagnosis]:
    """Yield which gang schedulers there are; `flag` is what the operator is set for, None if that is not known."""
    part, served = "Scheduler", [group for group in SCHEDULERS if group in set(groups)]
    known = {name: group for group, (name, _) in SCHEDULERS.items() if name}
    if flag and flag.lower() in known and known[flag.lower()] not in served:
        message = f"the operator is set for {flag}, and the cluster does not serve {known[flag.lower()]}: install it"
        yield Diagnosis(Verdict.FAILED, part, message)
    for group in served:
        name, title = SCHEDULERS[group]
        chosen = flag is not None and (flag.lower() == name if name else _is_coscheduling(flag))
        setting = "" if flag is None else ", and the operator is set for it" if chosen else _unset(name)
        yield Diagnosis(Verdict.OK, part, f"the cluster serves the API of {title}{setting}")


def _is_coscheduling(flag: str) -> bool:
    return bool(flag) and not (gang.is_volcano(flag) or gang.is_kai(flag) or gang.is_kubernetes(flag))


def _unset(name: str) -> str:
    return f", and the operator is not set for it (--gang-scheduler-name={name or 'the name of the scheduler'})"


def kueue(deployments: Sequence[Document] | Unreadable) -> Diagnosis:
    """Return whether Kueue, whose API the cluster serves, runs; `deployments` are those with its label."""
    part = "Kueue"
    if isinstance(deployments, Unreadable):
        return Diagnosis(Verdict.UNKNOWN, part, f"whether a pod of Kueue is ready: {deployments.advice}")
    if ready := next(filter(_ready, deployments), None):
        return Diagnosis(Verdict.OK, part, f"Deployment {namespace_of(ready)}/{name_of(ready)}: {_share(ready)} ready")
    if not deployments:
        message = "the cluster serves the API of Kueue, but no Deployment has its label, so that it may not run"
        return Diagnosis(Verdict.WARNING, part, message)
    names = listed([f"{namespace_of(item)}/{name_of(item)}" for item in deployments])
    message = f"no pod of Deployment {names} is ready: no job with a queue starts, and webhooks do not answer; {LOGS}"
    return Diagnosis(Verdict.FAILED, part, message)


def queues(found: Sequence[Document], namespace: str) -> Diagnosis:
    """Return which queues of Kueue a namespace has."""
    names = listed(list(map(name_of, found)))
    has = "the LocalQueues are" if len(found) > 1 else "the LocalQueue is"
    text = f"{has} {names}" if names else "there is no LocalQueue: a job that names one waits without end"
    return Diagnosis(Verdict.OK, "Kueue", f"in namespace {namespace} {text}")


def monitors(found: Sequence[Document], namespace: str) -> Diagnosis:
    """Return whether Prometheus Operator scrapes the operator in its namespace."""
    names = listed([f"{parse_text(item.get('kind')) or 'monitor'} {name_of(item)}" for item in found])
    if names:
        are = "is" if len(found) == 1 else "are"
        message = f"the cluster serves the API of Prometheus Operator; {names} {are} set up"
        return Diagnosis(Verdict.OK, "Prometheus", message)
    message = (
        f"the cluster serves the API of Prometheus Operator, and no monitor of Trainshed is in {namespace}: "
        "docs/metrics.md#set-it-up"
    )
    return Diagnosis(Verdict.OK, "Prometheus", message)


#: How long a certificate lasts that the operator should have renewed: it does so a month before the end.
RENEWAL_DUE = timedelta(days=28)


def progress_endpoint(
    address: str, service: Document | None, secret: Document | None, end: datetime | None, now: datetime
) -> Diagnosis:
    """Return whether trainings can report to this address; `end` is that of the certificate for it in the Secret."""
    part, (host, _, port) = "Progress", address.rpartition(":")
    name, namespace = host.split(".")[:2]
    why = ""
    if service is None:
        why = f"there is no Service {namespace}/{name}; {CREATES}"
    elif port not in {
        str(as_mapping(one).get("port")) for one in as_sequence(as_mapping(service.get("spec")).get("ports"))
    }:
        why = f"Service {namespace}/{name} has no port {port}; {CREATES}"
    elif secret is None:
        why = f"there is no Secret {namespace}/{name} for the certificate; {CREATES}"
    elif end is None:
        why = (
            f"Secret {namespace}/{name} has no certificate for {host}, which the operator makes within a minute; {LOGS}"
        )
    elif end <= now:
        why = f"the certificate in Secret {namespace}/{name} has ended {human((now - end).total_seconds())} ago; {LOGS}"
    if why or end is None:
        return Diagnosis(Verdict.FAILED, part, f"no training can report to {address}: {why}")
    left = f"the certificate in Secret {namespace}/{name} lasts for {human((end - now).total_seconds())}"
    if end - now < RENEWAL_DUE:
        return Diagnosis(Verdict.WARNING, part, f"{left} only, and the operator has not renewed it; {LOGS}")
    return Diagnosis(Verdict.OK, part, f"trainings can report to {address}; {left}")

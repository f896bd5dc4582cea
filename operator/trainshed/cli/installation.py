"""Reads what `trainshed doctor` looks at, each part as far as the caller may."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass
from itertools import islice

import click
from msgspec.structs import replace

from trainshed.api.coerce import as_mapping
from trainshed.api.framework import Framework
from trainshed.api.job import Document
from trainshed.client import AdmissionDenied, ApiError, Forbidden
from trainshed.client.client import LEASES
from trainshed.client.job_reader import GROUP, JobKind, NoSuchJob
from trainshed.client.lists import DOCUMENTS
from trainshed.client.transport import Path, RestClient
from trainshed.config import Config
from trainshed.frameworks import FRAMEWORKS, served
from trainshed.local import names
from trainshed.process import Clock
from trainshed.views import diagnosis
from trainshed.views.diagnosis import Diagnosis, Unreadable, Verdict
from trainshed.views.rows import name_of, namespace_of

from .connection import Cluster
from .operator_flags import config_of
from .operators import OWN_LABEL, OWN_NAME, ClusterState, command_line
from .permitted import api_groups, existing, identity, listed, prefix_of, readable, replicas, right

#: Seconds between two reads of a Lease, in which a leader renews it once at least.
BETWEEN = 3.0
APPS, RBAC = "/apis/apps/v1", "/apis/rbac.authorization.k8s.io/v1"
EXTENSIONS = "/apis/apiextensions.k8s.io/v1"
REVIEWS = Path("/apis/authorization.k8s.io/v1", "selfsubjectaccessreviews")
KUEUE, MONITORING = "kueue.x-k8s.io", "monitoring.coreos.com"
LABELLED, KUEUES = ({"labelSelector": f"{OWN_LABEL}={name}"} for name in (OWN_NAME, "kueue"))
#: The roles of the smallest job of a kind.
LEAST = {"PyTorchJob": ("Master",), "XGBoostJob": ("Master",), "MPIJob": ("Launcher", "Worker")}
#: An annotation that does not exist, with the prefix of those that the admission policy knows.
UNKNOWN_ANNOTATION = "trainshed.dev/doctor"


@dataclass(frozen=True, slots=True)
class Installed:
    """What is known of the operators: their Deployments, and the settings of the first.

    `confirmed` is whether a ClusterRoleBinding names them. If not, any user may have created them: several decide
    nothing. `bindings` is what the caller lacks to know that.
    """

    deployments: tuple[Document, ...]
    confirmed: bool
    settings: Config | None
    bindings: Unreadable | None = None

    @property
    def known(self) -> bool:
        """Whether the first Deployment is that of the operator, if there is one."""
        return self.confirmed or len(self.deployments) == 1

    @property
    def namespace(self) -> str:
        """The namespace of the first operator; empty if it is not known."""
        return namespace_of(self.deployments[0]) if self.known else ""


async def examine(cluster: Cluster, own_version: str) -> AsyncIterator[Diagnosis]:
    """Yield the state of each part; raises an `ApiError` if the API server does not answer at all."""
    rest, namespace = cluster.rest, cluster.namespace
    yield diagnosis.kubernetes(DOCUMENTS.answer(await rest.call("GET", Path("", "version"))))
    try:
        kinds = await cluster.reader.kinds()
    except NoSuchJob as error:
        yield Diagnosis(Verdict.FAILED, "CRDs", str(error))
        kinds = []
    for found in await _diagnosed("CRDs", _definitions(rest, kinds)):
        yield found
    installed = await find_installed(rest)
    if isinstance(installed, Unreadable):
        yield installed.of("Operator")
    else:
        for found in await _diagnosed("Operator", _operator(rest, installed, own_version)):
            yield found
    for parts in await asyncio.gather(
        _diagnosed("Validation", _validation(rest, kinds, namespace)),
        _diagnosed("Rights", _rights(rest, kinds, namespace)),
        _diagnosed("Neighbours", _neighbours(rest, installed, namespace)),
    ):
        for found in parts:
            yield found


async def _diagnosed(part: str, work: Awaitable[list[Diagnosis]]) -> list[Diagnosis]:
    """Return what was found, or the error of the API server instead: the other parts are checked all the same."""
    try:
        return await work
    except ApiError as error:
        return [Diagnosis(Verdict.FAILED, part, f"the API server does not say: {error}")]


async def _definitions(rest: RestClient, kinds: list[JobKind]) -> list[Diagnosis]:
    if not kinds:
        return []
    versions = [kind.prefix.rpartition("/")[2] for kind in kinds if kind.kind == "MPIJob"]
    frameworks = served(next(iter(versions), "v1"))
    path = Path(EXTENSIONS, "customresourcedefinitions")
    names = (f"{framework.plural}.{GROUP}" for framework in frameworks)
    try:
        found = await asyncio.gather(*(existing(rest, replace(path, name=name)) for name in names))
    except Forbidden:
        known = Diagnosis(Verdict.OK, "CRDs", f"the cluster has {', '.join(kind.kind for kind in kinds)}")
        return [known, Unreadable(right("get", path)).of("CRDs")]
    return list(diagnosis.definitions(filter(None, found), frameworks))


async def find_installed(rest: RestClient) -> Installed | Unreadable:
    """Return the operators: those to which a ClusterRoleBinding gives rights, or others if there are none of these."""
    bindings = await listed(rest, Path(RBAC, "clusterrolebindings"))
    refused = bindings if isinstance(bindings, Unreadable) else None
    state = ClusterState((), (), (), () if isinstance(bindings, Unreadable) else tuple(bindings))
    found = await listed(rest, Path(APPS, "deployments"), LABELLED, state.kept())
    if isinstance(found, Unreadable):
        return found
    if confirmed := dataclasses.replace(state, deployments=tuple(found)).own_deployments:
        return Installed(confirmed, confirmed=True, settings=_settings(confirmed[0]))
    settings = await _settings_of(rest, found[0]) if len(found) == 1 else None
    return Installed(tuple(found), confirmed=False, settings=settings, bindings=refused)


async def _settings_of(rest: RestClient, item: Document) -> Config | None:
    try:
        found = await existing(rest, Path(APPS, "deployments", namespace_of(item), name_of(item)))
    except Forbidden:
        return None
    return _settings(found) if found else None


def _settings(item: Document) -> Config | None:
    """Return what the flags in a Deployment mean; None if this version does not know them, or they name no Lease."""
    flags = command_line(item)
    try:
        found = config_of(flags[1:] if flags[:1] == ("operator",) else flags, own=False)
    except click.UsageError:
        return None
    wrong = names.subdomain(found.lease_name) or (found.lease_namespace and names.label(found.lease_namespace))
    return None if wrong else found


async def _operator(rest: RestClient, installed: Installed, own_version: str) -> list[Diagnosis]:
    if not installed.deployments:
        message = f"there is no Deployment of the operator; {diagnosis.INSTALL}, unless it runs outside of the cluster"
        return [Diagnosis(Verdict.FAILED, "Operator", message)]
    found = list(diagnosis.deployments(installed.deployments, own_version, confirmed=installed.confirmed))
    if installed.bindings:
        found.append(installed.bindings.of("Operator"))
    if installed.confirmed and len(installed.deployments) > 1:
        message = "there are several operators, which is right only if they have different namespaces or kinds"
        found.append(Diagnosis(Verdict.WARNING, "Operator", message))
    found.append(await _leader(rest, installed))
    settings = installed.settings if installed.known else None
    if settings and settings.job_defaults.progress_server:
        found.append(await _progress(rest, settings.job_defaults.progress_server))
    return found


#: What brings the package that reads certificates.
WITH_IT = "pip install 'trainshed[operator]'"


async def _progress(rest: RestClient, address: str) -> Diagnosis:
    """Look at the Service and the Secret of the progress endpoint."""
    try:
        from trainshed.controller import serving_certificates  # noqa: PLC0415 - cryptography, which few commands need
    except ModuleNotFoundError as error:
        message = f"its certificate cannot be read without the Python package {error.name}: {WITH_IT}"
        return Diagnosis(Verdict.UNKNOWN, "Progress", message)
    host, now = address.rpartition(":")[0], Clock().now()
    name, namespace = host.split(".")[:2]
    service, secret = [await readable(rest, Path("/api/v1", kind, namespace, name)) for kind in ("services", "secrets")]
    if isinstance(service, Unreadable):
        return service.of("Progress")
    if isinstance(secret, Unreadable):
        return secret.of("Progress")
    known = serving_certificates.from_secret(as_mapping(secret.get("data"))) if secret else None
    end = serving_certificates.end_of(known, host) if known else None
    return diagnosis.progress_endpoint(address, service, secret, end, now)


async def _leader(rest: RestClient, installed: Installed) -> Diagnosis:
    settings = installed.settings
    if not installed.known:
        message = "which of these Deployments is the operator's is not known, and so its Lease is not known either"
        return Diagnosis(Verdict.UNKNOWN, "Leader", message)
    if settings is None:
        message = "the operator has flags that trainshed here does not know, so its Lease is not known either"
        return Diagnosis(Verdict.UNKNOWN, "Leader", message)
    if not settings.leader_elect:
        return Diagnosis(
            Verdict.OK, "Leader", "leader election is off (--no-leader-elect): one replica at most may run"
        )
    path = Path(LEASES, "leases", settings.lease_namespace or installed.namespace, settings.lease_name)
    name, now = f"{path.namespace}/{path.name}", Clock().now
    try:
        first = later = await existing(rest, path)
        found = diagnosis.leader(name, first, later, now())
        if found.verdict is Verdict.FAILED and first is not None:
            await asyncio.sleep(BETWEEN)
            found = diagnosis.leader(name, first, await existing(rest, path), now())
    except Forbidden:
        return Unreadable(right("get", path)).of("Leader")
    return found


def _smallest(framework: Framework, *, image: str, annotation: str = "") -> Document:
    template = {"spec": {"containers": [{"name": framework.container.name, "image": image}]}}
    roles = {role: {"replicas": 1, "template": template} for role in LEAST.get(framework.kind, ("Worker",))}
    annotations = {annotation: "true"} if annotation else {}
    metadata = {"generateName": "trainshed-doctor-", "annotations": annotations}
    spec = {framework.field: roles, "runPolicy": {}}
    return {"apiVersion": framework.api_version, "kind": framework.kind, "metadata": metadata, "spec": spec}


async def _validation(rest: RestClient, kinds: list[JobKind], namespace: str) -> list[Diagnosis]:
    """Try to create jobs in a dry run: one without faults, one that the CRD refuses, and one for the policy."""
    prefixes = {(kind.kind, kind.prefix) for kind in kinds}
    framework = next((one for one in served("v1") if (one.kind, one.prefix) in prefixes), None)
    if framework is None:
        return []
    path = Path(framework.prefix, framework.plural, namespace)

    async def tried(job: Document) -> ApiError | None:
        try:
            await rest.call("POST", path, job, {"dryRun": "All"})
        except ApiError as error:
            return error
        return None

    valid, invalid, annotated = (
        _smallest(framework, image="example.com/none:1"),
        _smallest(framework, image=""),
        _smallest(framework, image="example.com/none:1", annotation=UNKNOWN_ANNOTATION),
    )
    accepted = await tried(valid)
    if isinstance(accepted, Forbidden) and not isinstance(accepted, AdmissionDenied):
        return [Unreadable(right("create", path)).of("Validation")]
    return list(diagnosis.validation(accepted, await tried(invalid), await tried(annotated), framework.kind))


async def _rights(rest: RestClient, kinds: list[JobKind], namespace: str) -> list[Diagnosis]:
    """Ask the API server what the caller may do."""
    jobs = [(kind.plural, GROUP) for kind in kinds] or [(one.plural, GROUP) for one in FRAMEWORKS]
    pods, log, debug, events = ("pods", ""), ("pods/log", ""), ("pods/ephemeralcontainers", ""), ("events", "")
    needs = {
        "see jobs": [
            *(("get", one) for one in jobs),
            *(("list", one) for one in jobs),
            ("list", pods),
            ("list", events),
        ],
        "read logs": [("get", log)],
        "act on jobs": [(verb, one) for verb in ("create", "patch", "delete") for one in jobs],
        "look into processes (trainshed stacks)": [("patch", debug)],
    }

    async def denied(verb: str, resource: tuple[str, str]) -> str:
        plural, _, subresource = resource[0].partition("/")
        wanted = {"namespace": namespace, "verb": verb, "group": resource[1], "resource": plural}
        body = {"spec": {"resourceAttributes": wanted | {"subresource": subresource}}}
        answer = DOCUMENTS.answer(await rest.call("POST", REVIEWS, body))
        return "" if as_mapping(answer.get("status")).get("allowed") is True else f"{verb} {resource[0]}"

    try:
        answers = await asyncio.gather(*(denied(*need) for group in needs.values() for need in group))
    except Forbidden:
        return [Unreadable(right("create", REVIEWS)).of("Rights")]
    left = iter(answers)
    missing = {purpose: [*filter(None, islice(left, len(group)))] for purpose, group in needs.items()}
    return list(diagnosis.rights(missing, namespace))


async def _neighbours(rest: RestClient, installed: Installed | Unreadable, namespace: str) -> list[Diagnosis]:
    """Say which others the cluster has, by discovery, and what is set for them."""
    groups = await api_groups(rest)
    if isinstance(groups, Unreadable):
        return [groups.of("Neighbours")]
    known = None if isinstance(installed, Unreadable) else installed
    flag = known.settings.job_defaults.gang_scheduler if known and known.settings else None
    found = list(diagnosis.schedulers(groups, flag))
    if KUEUE in groups:
        found.append(diagnosis.kueue(await listed(rest, Path(APPS, "deployments"), KUEUES, replicas)))
        queues = await listed(rest, Path(prefix_of(groups[KUEUE]), "localqueues", namespace), keep=identity)
        found.append(queues.of("Kueue") if isinstance(queues, Unreadable) else diagnosis.queues(queues, namespace))
    if MONITORING in groups and known and known.namespace:
        found.append(await _monitors(rest, prefix_of(groups[MONITORING]), known.namespace))
    return found or [Diagnosis(Verdict.OK, "Neighbours", "none of Kueue, gang schedulers and Prometheus Operator")]


async def _monitors(rest: RestClient, prefix: str, namespace: str) -> Diagnosis:
    lists = [
        await listed(rest, Path(prefix, plural, namespace), LABELLED, identity)
        for plural in ("podmonitors", "servicemonitors")
    ]
    refused = [one for one in lists if isinstance(one, Unreadable)]
    items: Iterable[Document] = (item for one in lists if not isinstance(one, Unreadable) for item in one)
    return refused[0].of("Prometheus") if refused else diagnosis.monitors(list(items), namespace)

"""The flags of the operator, and the settings that they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Any

import click

from trainshed.api.quantities import parse_quantity
from trainshed.config import Config, bind_address, from_settings
from trainshed.frameworks import FRAMEWORKS, MPI_VERSIONS
from trainshed.frameworks.pytorch import TEMPLATE_VARIABLES, BadTemplate, init_containers_from_template

from . import notify_flags
from .go_style import GoStyleCommand
from .parameters import one_of, separated

#: The name of a resource of Kubernetes.
RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9./]*[a-z0-9])?", re.ASCII)
#: The key of an annotation: a qualified name.
ANNOTATION = re.compile(r"([a-z0-9][-a-z0-9.]{0,251}[a-z0-9]/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII)
#: The host of a Service, with its namespace, and a port.
PROGRESS_SERVER = re.compile(r"([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.){2}svc:[0-9]{1,5}", re.ASCII)


KINDS = {framework.kind.lower(): framework.kind for framework in FRAMEWORKS}
#: A name of a namespace: a DNS label (RFC 1123).
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NO_WEBHOOK = "there is no webhook; the API server validates jobs by the rules in the CRDs"
#: Flags of v1 that Trainshed accepts and ignores, so that a Deployment of v1 starts when only its image is replaced.
IGNORED = {
    "--controller-threads": "Trainshed reconciles all changed jobs concurrently",
    "--webhook-server-port": NO_WEBHOOK,
    "--webhook-service-name": NO_WEBHOOK,
    "--webhook-secret-name": NO_WEBHOOK,
    "--zap-stacktrace-level": "unexpected errors are always logged with a traceback",
    "--zap-time-encoding": "times are always logged in ISO 8601",
}
ZAP_DEVEL = "use --zap-log-level and --zap-encoder instead; their defaults are info and text"
#: Values of v1's flags for the log level and the log format that have another name here.
LEVELS = {"panic": "error", "dpanic": "error", "fatal": "error", "warn": "warning"}
FORMATS = {"console": "text"}
#: v1's default path of the template of its init container.
INIT_TEMPLATE = "/etc/config/initContainer.yaml"
FLAG_WARNINGS = "trainshed.flag_warnings"
DEFAULTS = Config()


def _kinds(_context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [name for name in names if name.lower() not in KINDS]
    if unknown:
        raise click.BadParameter(f"unknown kind {', '.join(unknown)}; known kinds are {', '.join(KINDS.values())}")
    return tuple(dict.fromkeys(KINDS[name.lower()] for name in names))


def _namespaces(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    names = separated(values)
    wrong = [name for name in names if not NAMESPACE.fullmatch(name)]
    if wrong:
        raise click.BadParameter(f"{', '.join(wrong)}: not a valid name of a namespace")
    return tuple(dict.fromkeys(names))


def _bind_address(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    try:
        bind_address(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return value


def _progress_server(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if value and not PROGRESS_SERVER.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not the host and the port of a Service, such as progress.ml.svc:10443")
    return value


def _ignore(context: click.Context, parameter: click.Parameter, value: object) -> None:
    if value is not None:
        flag = parameter.opts[0]
        _warn(context, f"{flag} is ignored: {IGNORED.get(flag, ZAP_DEVEL)}")


def _warn(context: click.Context, words: str) -> None:
    context.meta.setdefault(FLAG_WARNINGS, []).append(words)


def _level(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    level = value.lower()
    if level.isdecimal():
        return "debug"
    return _one_of(("debug", "info", "warning", "error"), LEVELS.get(level, level))


def _format(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    name = value.lower()
    return _one_of(("text", "json"), FORMATS.get(name, name))


def _one_of(known: tuple[str, ...], value: str) -> str:
    if value not in known:
        raise click.BadParameter(f"{value!r} is not one of {', '.join(known)}")
    return value


def _template(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the content of v1's template file. A missing file is no error, as in v1."""
    path = Path(value)
    if not path.is_file():
        if value and value != INIT_TEMPLATE:
            _warn(context, f"{parameter.opts[0]} is ignored: file {value} does not exist")
        return ""
    text = path.read_text(encoding="utf-8")
    try:
        init_containers_from_template(text, TEMPLATE_VARIABLES)
    except BadTemplate as error:
        raise click.BadParameter(f"{value}: {error}") from error
    return text


def _resources(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[tuple[str, str], ...]:
    pairs = tuple(part.partition("=")[::2] for part in value.split(",") if part)
    for name, amount in pairs:
        if not RESOURCE.fullmatch(name) or parse_quantity(amount) is None:
            raise click.BadParameter(f"{name}={amount} is not a resource with its quantity, such as memory=64Mi")
    return pairs


def _pod_annotations(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = dict(value.partition("=")[::2] for value in values)
    for value in values:
        if "=" not in value or not ANNOTATION.fullmatch(value.partition("=")[0]):
            raise click.BadParameter(f"{value!r} is not an annotation with its value, key=value")
    return tuple(pairs.items())


def _gang(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    return "" if value == "None" else value


_HIDDEN: dict[str, Any] = {"hidden": True, "expose_value": False, "callback": _ignore}
#: The flags of the operator, and those of v1 that it ignores.
FLAGS: tuple[click.Option, ...] = (
    click.Option(
        ["--namespace", "namespaces"],
        multiple=True,
        callback=_namespaces,
        envvar=["TRAINSHED_OPERATOR_NAMESPACE", "KUBEFLOW_NAMESPACE"],
        help="Namespace to watch (default: all). May be repeated, or a list separated by commas.",
    ),
    click.Option(
        ["--enable-scheme", "kinds"],
        multiple=True,
        callback=_kinds,
        help="Kind of job to reconcile, for example TFJob (default: all). May be repeated.",
    ),
    click.Option(["--kubeconfig"], default="", help="Path of the kubeconfig file. Needed only outside a cluster."),
    click.Option(["--context"], default="", help="Context of the kubeconfig (default: its current context)."),
    click.Option(
        ["--leader-elect/--no-leader-elect"],
        default=DEFAULTS.leader_elect,
        show_default=True,
        help="Enable leader election among replicas.",
    ),
    click.Option(
        ["--lease-name", "--leader-election-id"],
        default=DEFAULTS.lease_name,
        show_default=True,
        help="Name of the leader-election Lease.",
    ),
    click.Option(
        ["--lease-namespace"],
        default="",
        envvar=["TRAINSHED_OPERATOR_LEASE_NAMESPACE", "MY_POD_NAMESPACE"],
        help="Namespace of the Lease (default: the operator's).",
    ),
    click.Option(
        ["--lease-identity"],
        default="",
        help="Identity of this replica in the Lease (default: host name and process ID).",
    ),
    click.Option(
        ["--health-probe-bind-address", "health"],
        default=DEFAULTS.health,
        show_default=True,
        callback=_bind_address,
        help="Bind address for health probes (/healthz and /readyz); 0 disables them.",
    ),
    click.Option(
        ["--metrics-bind-address", "metrics"],
        default=DEFAULTS.metrics,
        show_default=True,
        callback=_bind_address,
        help="Bind address for metrics (/metrics); 0 disables them.",
    ),
    click.Option(
        ["--progress-server", "progress_server"],
        default="",
        callback=_progress_server,
        help="Host and port of the Service by which pods report the progress of their trainings over HTTPS"
        " (default: none, and no reports are received). Its certificate is in the Secret of that name.",
    ),
    click.Option(
        ["--progress-bind-address", "progress"],
        default=DEFAULTS.progress,
        show_default=True,
        callback=_bind_address,
        help="Bind address for reports of trainings, if --progress-server is set.",
    ),
    click.Option(["--job-metrics"], is_flag=True, help="Export time series for each unfinished job."),
    click.Option(
        ["--nccl-ras"],
        is_flag=True,
        help="Ask NCCL and PyTorch's debug server by port-forwards about jobs with trainshed.dev/hang-deadline.",
    ),
    click.Option(
        ["--kube-api-qps", "qps"],
        default=DEFAULTS.qps,
        show_default=True,
        help="Maximum API writes per second; 0 means no limit.",
    ),
    click.Option(
        ["--kube-api-burst", "burst"], default=DEFAULTS.burst, show_default=True, help="Burst above --kube-api-qps."
    ),
    click.Option(
        ["--cluster-domain"],
        default="",
        envvar=["TRAINSHED_OPERATOR_CLUSTER_DOMAIN", "CUSTOM_CLUSTER_DOMAIN"],
        help="Cluster domain of the names in TF_CONFIG (default: none) and of search domains (default: cluster.local).",
    ),
    click.Option(
        ["--default-clean-pod-policy", "clean_pods"],
        **one_of(DEFAULTS.job_defaults.clean_pods),
        help="cleanPodPolicy of jobs that do not set it.",
    ),
    click.Option(
        ["--gang-scheduler-name", "gang_scheduler"],
        default="",
        callback=_gang,
        help="Gang scheduler: volcano, kubernetes, kai-scheduler, or the name of one with the coscheduling plugin"
        " (default: none).",
    ),
    click.Option(
        ["--default-services", "services"],
        **one_of(DEFAULTS.job_defaults.services),
        help="Headless Services of jobs that do not choose: one for each replica, or one for the job.",
    ),
    click.Option(
        ["--kueue-integration", "kueue"],
        **one_of(DEFAULTS.job_defaults.kueue),
        help="What Kueue admits of jobs in a queue that do not choose: the job, or its pods as a group (PodGroup), for"
        " a Kueue that does not know the kinds of kubeflow.org/v1.",
    ),
    click.Option(
        ["--default-pod-annotation", "pod_annotations"],
        multiple=True,
        callback=_pod_annotations,
        help="Annotation of all pods whose template does not have it, such as sidecar.istio.io/inject=false. May be"
        " repeated.",
    ),
    click.Option(
        ["--track-results"],
        is_flag=True,
        help="Allow jobs to keep their pods until the results are stored in the status.",
    ),
    click.Option(
        ["--progress-logs"],
        is_flag=True,
        help="Allow jobs to report their progress by their logs, which the operator follows.",
    ),
    click.Option(
        ["--node-health"],
        is_flag=True,
        help="Read the nodes on which replicas failed, to say what is wrong there and to try again for that.",
    ),
    click.Option(["--record"], is_flag=True, help="Allow jobs to have a record kept after their end, in a ConfigMap."),
    click.Option(
        ["--record-decisions"],
        **one_of(DEFAULTS.job_defaults.record_decisions),
        help="Jobs of which the decisions of the operator are recorded, in a ConfigMap of each: None, Annotated (those"
        " with trainshed.dev/record: Decisions), or All.",
    ),
    *notify_flags.FLAGS,
    click.Option(
        ["--max-log-follows", "log_follows"],
        default=DEFAULTS.log_follows,
        type=click.IntRange(min=1),
        show_default=True,
        help="Maximum number of logs that are followed at a time.",
    ),
    click.Option(
        ["--pytorch-init-container-image", "init_image"],
        default="",
        help="Image of v1's PyTorch init container; enables it.",
    ),
    click.Option(
        ["--pytorch-init-container-max-tries", "init_tries"],
        default=DEFAULTS.job_defaults.init_tries,
        show_default=True,
        help="Maximum retries of the init container.",
    ),
    click.Option(
        ["--pytorch-init-container-template-file", "init_template"],
        default=INIT_TEMPLATE,
        show_default=True,
        callback=_template,
        help="Template file of v1's init containers; enables them if the file exists.",
    ),
    click.Option(
        ["--mpi-version"],
        default=DEFAULTS.mpi_version,
        type=click.Choice([*MPI_VERSIONS]),
        show_default=True,
        help="API version that the CRD of MPIJob serves.",
    ),
    click.Option(
        ["--mpi-kubectl-delivery-image", "mpi_kubectl_image"],
        default=DEFAULTS.job_defaults.mpi_kubectl_image,
        show_default=True,
        help="Image that provides kubectl to the launchers of v1 MPIJobs.",
    ),
    click.Option(
        ["--mpi-bind-named-service-accounts", "mpi_bind_named_accounts"],
        is_flag=True,
        help="Let the service accounts that launchers of v1 MPIJobs name exec into the workers, as in v1.",
    ),
    click.Option(
        ["--init-container-resources", "init_resources"],
        default="",
        callback=_resources,
        help="Requests and limits of init containers that the operator adds, such as cpu=1,memory=1Gi.",
    ),
    click.Option(
        ["--log-level", "--zap-log-level"],
        default=DEFAULTS.log_level,
        callback=_level,
        help="Log level: debug, info, warning or error.",
    ),
    click.Option(
        ["--log-format", "--zap-encoder"],
        default=DEFAULTS.log_format,
        callback=_format,
        help="Log format: text or json (default: text).",
    ),
    *(click.Option([flag], **_HIDDEN) for flag in IGNORED),
    click.Option(["--zap-devel/--no-zap-devel"], default=None, **_HIDDEN),
)


def config(context: click.Context) -> Config:
    """Return the settings that the flags of this command line mean, which click has checked."""
    return from_settings({**context.params, "flag_warnings": tuple(context.meta.get(FLAG_WARNINGS, ()))})


def config_of(flags: Iterable[str], *, own: bool) -> Config:
    """Return the settings that these flags mean to an operator; raises `click.UsageError`.

    Unless they are the user's own, no file that they name is read, and no variable of the environment: those of the
    machine on which the operator runs are meant. `--help` is unknown, because it would end the program.
    """
    parameters = FLAGS if own else [*map(_without_access, FLAGS)]
    command = GoStyleCommand("operator", params=[*parameters], add_help_option=False)
    with command.make_context("operator", list(flags)) as context:
        return config(context)


def _without_access(parameter: click.Parameter) -> click.Parameter:
    found = copy(parameter)
    found.envvar = None
    found.callback = _unread if parameter.callback is _template else parameter.callback
    return found


def _unread(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value and value != INIT_TEMPLATE:
        _warn(context, f"{parameter.opts[0]} is not considered here: file {value} is in the operator's pod")
    return ""

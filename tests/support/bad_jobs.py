"""Invalid jobs, with the refusal of each, and extreme jobs that are valid: a table for the operator and the API server.

Where the API server's message differs from the operator's, it follows after a bar.
"""

from __future__ import annotations

from collections.abc import Iterator

from .jobs import GONE, KINDS, edited, job, pytorchjob, smallest, tfjob

#: The kinds whose replicas have stable names, in a container with the name of the framework.
NAMED_KINDS = ("TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob")


def _changed(kind: str, *path: object, value: object = GONE) -> dict:
    """Return the smallest job of a kind with a change of its first role."""
    return edited(smallest(kind, "a"), "spec", KINDS[kind].field, KINDS[kind].least[0], *path, value=value)


def _container(kind: str, field: str, value: object = GONE) -> dict:
    """Return the smallest job of a kind with a change of its container."""
    return _changed(kind, "template", "spec", "containers", 0, field, value=value)


def _policy(**fields: object) -> dict:
    return tfjob("a", policy=fields, Worker=1)


def _pytorch(**spec: object) -> dict:
    job = pytorchjob("a", Master=1, Worker=1)
    job["spec"].update(spec)
    return job


def _paddle(*, metrics: list | None = None, **rest: int) -> dict:
    """Return an elastic PaddleJob; arguments that are no roles belong to its policy."""
    roles = {role: rest.pop(role) for role in ("Master", "Worker") if role in rest}
    found = job("PaddleJob", "a", **roles)
    found["spec"]["elasticPolicy"] = rest if metrics is None else rest | {"metrics": metrics}
    return found


def _of_every_kind() -> Iterator[tuple[str, dict, str]]:
    for kind in NAMED_KINDS:
        field, role = KINDS[kind].field, KINDS[kind].least[0]
        path = f"spec.{field}[{role}].template.spec.containers"
        named = f"must have at least one container with name {KINDS[kind].container}"
        yield f"name begins with a digit ({kind})", smallest(kind, "0-test"), "metadata.name: Invalid value"
        yield f"name too long for its members ({kind})", smallest(kind, "x" * 56), "too long"
        yield f"unknown manager ({kind})", smallest(kind, "a", policy={"managedBy": "other"}), "managedBy"
        yield f"no replicas at all ({kind})", job(kind, "a"), field
        yield f"replica specs missing ({kind})", edited(smallest(kind, "a"), "spec", field), field
        yield f"unknown role ({kind})", job(kind, "a", Foo=1), f"spec.{field}: Invalid value: supported replica types"
        yield f"negative replicas ({kind})", job(kind, "a", Master=1, Worker=-1), "replicas"
        empty = _changed(kind, "template", "spec", "containers", value=[])
        yield f"no containers ({kind})", empty, f"{path}: Required value: must be specified"
        lacking = f"{path}: Required value: must be specified in a template, and {named}"
        yield f"no template of pods ({kind})", _changed(kind, "template"), lacking
        yield f"no spec of pods ({kind})", _changed(kind, "template", value={}), lacking
        yield f"no image ({kind})", _container(kind, "image", ""), f"{path}[0].image: Required value: is required"
        yield f"image missing ({kind})", _container(kind, "image"), f"{path}[0].image: Required value"
        yield f"no container of that name ({kind})", _container(kind, "name", "x"), f"{path}: Required value: {named}"
    for kind in NAMED_KINDS[1:]:
        yield f"lower-case role ({kind})", job(kind, "a", worker=1), "supported replica types"
    for kind in ("PyTorchJob", "XGBoostJob"):
        one = f"spec.{KINDS[kind].field}[Master].replicas: Forbidden: must be 1"
        yield f"two masters ({kind})", job(kind, "a", Master=2, Worker=1), one
        yield f"a master without a number ({kind})", job(kind, "a", Master=None, Worker=1), one


#: A title, the job, and the message.
BAD: list[tuple[str, dict, str]] = [
    *_of_every_kind(),
    ("name ends with a dash", tfjob("test-", Worker=1), "metadata.name: Invalid value|metadata.name"),
    ("name with a dot", tfjob("a.b", Worker=1), "metadata.name: Invalid value"),
    ("name too long for many members", tfjob("x" * 53, Worker=101), "too long"),
    ("unknown clean pod policy", _policy(cleanPodPolicy="Foo"), "cleanPodPolicy"),
    ("negative deadline", _policy(activeDeadlineSeconds=-1), "activeDeadlineSeconds"),
    ("text for a truth", _policy(suspend="yes"), "suspend"),
    ("a figure as text", _policy(ttlSecondsAfterFinished="5"), "ttlSecondsAfterFinished"),
    ("a truth for a number", tfjob("a", Worker=True), "replicas"),
    ("negative back-off limit", _policy(backoffLimit=-1), "backoffLimit"),
    ("text for a number", _policy(ttlSecondsAfterFinished="soon"), "ttlSecondsAfterFinished"),
    ("unknown restart policy", tfjob("a", restart="Foo", Worker=1), "restartPolicy"),
    ("unknown success policy", edited(tfjob("a", Worker=1), "spec", "successPolicy", value="Foo"), "successPolicy"),
    ("unknown rendezvous", _pytorch(elasticPolicy={"rdzvBackend": "foo"}), "rdzvBackend"),
    ("a deadline beyond reason", _policy(activeDeadlineSeconds=10**10 + 1), "activeDeadlineSeconds"),
    ("a limit beyond 32 bits", _policy(backoffLimit=2**31), "backoffLimit"),
    ("part of a processor", _policy(schedulingPolicy={"minResources": {"cpu": 0.5}}), "minResources.cpu"),
    ("port zero", _pytorch(elasticPolicy={"rdzvPort": 0}), "rdzvPort"),
    ("a port too high", _pytorch(elasticPolicy={"rdzvPort": 65536}), "rdzvPort"),
    (
        "too many settings of a rendezvous",
        _pytorch(elasticPolicy={"rdzvConf": [{"key": "a"}] * 257}),
        "spec.elasticPolicy.rdzvConf: Too many: 257: must have at most 256 items",
    ),
    (
        "too many metrics",
        _pytorch(elasticPolicy={"minReplicas": 1, "metrics": [{"type": "Resource"}] * 257}),
        "spec.elasticPolicy.metrics: Too many: 257: must have at most 256 items",
    ),
    (
        "too many resources of a gang",
        _policy(schedulingPolicy={"minResources": {f"example.com/{number}": 1 for number in range(257)}}),
        "spec.runPolicy.schedulingPolicy.minResources: Too many: 257: must have at most 256 items",
    ),
    ("fewer than no workers", _pytorch(elasticPolicy={"minReplicas": -1}), "minReplicas"),
    ("processes per node too long", _pytorch(nprocPerNode="1" * 17), "nprocPerNode"),
    ("a quantity that is none", _policy(schedulingPolicy={"minResources": {"a": "2 GB"}}), "minResources.a"),
    ("absurdly many replicas", tfjob("a", Worker=10**9), "replicas"),
    ("too many replicas in sum", tfjob("a", Worker=60_000, PS=60_000), "no more than 100000 replicas in sum"),
    ("a role twice in different cases", tfjob("a", Worker=1, worker=1), "must not appear twice"),
    ("chief and master", tfjob("a", Chief=1, Master=1), "must not have more than 1 Chief or Master role"),
    ("chief and master in lower case", tfjob("a", chief=1, master=1), "must not have more than 1 Chief or Master role"),
    (
        "no master of an XGBoostJob",
        job("XGBoostJob", "a", Worker=1),
        "spec.xgbReplicaSpecs[Master]: Required value: must be present",
    ),
    ("a master of a JAXJob", job("JAXJob", "a", Master=1, Worker=1), "spec.jaxReplicaSpecs: Invalid value"),
    ("fewer than no restarts of a PaddleJob", _paddle(Worker=1, maxRestarts=-1), "elasticPolicy.maxRestarts"),
    ("no workers", pytorchjob("a", Master=1, Worker=0), "[Worker].replicas: Forbidden: must be at least 1"),
    (
        "elastic without workers",
        edited(pytorchjob("a", Master=1), "spec", "elasticPolicy", value={"minReplicas": 1}),
        "must be configured if elastic policy is used",
    ),
    (
        "a minimum of workers above the maximum",
        _pytorch(elasticPolicy={"minReplicas": 3, "maxReplicas": 2}),
        "spec.elasticPolicy.minReplicas: Invalid value: must be no more than maxReplicas",
    ),
    (
        "processes per node twice",
        _pytorch(nprocPerNode="1", elasticPolicy={"nProcPerNode": 1}),
        "must not be used with spec.nprocPerNode",
    ),
]
GOOD: list[tuple[str, dict]] = [
    ("a parameter-server job", tfjob("ps", Chief=1, PS=2, Worker=2, Evaluator=1)),
    ("roles in any case", tfjob("cases", chief=1, WORKER=2, ps=1)),
    ("two chiefs", tfjob("chiefs", Chief=2)),
    ("no workers of a TFJob", tfjob("none", Chief=1, Worker=0)),
    ("the longest name for one worker", tfjob("x" * 54, Worker=10)),
    ("the longest name for many workers", tfjob("x" * 52, Worker=101)),
    ("a job managed by training-operator", _policy(managedBy="kubeflow.org/training-operator")),
    ("a master and workers", pytorchjob("ddp", Master=1, Worker=3)),
    ("workers only", pytorchjob("workers", Worker=2)),
    ("an elastic job", _pytorch(elasticPolicy={"minReplicas": 1, "maxReplicas": 3, "rdzvBackend": "c10d"})),
    *((f"the smallest {kind}", smallest(kind, "a")) for kind in NAMED_KINDS),
    *(
        (f"the longest name for one worker ({kind})", job(kind, "x" * 54, Master=1, Worker=1))
        for kind in NAMED_KINDS[1:4]
    ),
    ("a master and workers of an XGBoostJob", job("XGBoostJob", "xgb", Master=1, Worker=3)),
    ("no workers of an XGBoostJob", job("XGBoostJob", "xgb", Master=1, Worker=0)),
    ("several masters of a PaddleJob", job("PaddleJob", "pd", Master=2, Worker=None)),
    ("an elastic PaddleJob", _paddle(Worker=2, minReplicas=1, maxReplicas=3, metrics=[{"type": "Resource"}])),
    ("an elastic PaddleJob without workers", _paddle(Master=1)),
    ("no workers of a JAXJob", job("JAXJob", "jx", Worker=0)),
    ("a JAXJob of another's management", smallest("JAXJob", "a", policy={"managedBy": "kueue.x-k8s.io/multikueue"})),
    ("an elastic job of one size", _pytorch(elasticPolicy={"minReplicas": 2, "maxReplicas": 2})),
    ("a run policy with nothing in it", edited(tfjob("a", Worker=1), "spec", "runPolicy", value=None)),
    ("suspend with nothing after it", _policy(suspend=None)),
    ("a deadline at its bound", _policy(activeDeadlineSeconds=10**10)),
    ("a long name of a queue", _policy(schedulingPolicy={"queue": "q" * 300})),
    (
        "the highest port and many settings",
        _pytorch(elasticPolicy={"rdzvPort": 65535, "rdzvConf": [{"key": "a"}] * 100}),
    ),
    ("the longest processes per node", _pytorch(nprocPerNode="1" * 16)),
    ("every limit at zero", _policy(activeDeadlineSeconds=0, backoffLimit=0, ttlSecondsAfterFinished=0)),
]

"""Jobs that cannot be, with the words that say why, and jobs at the edge that can: one table for both who judge.

Where the API server's own words differ from ours they follow after a bar.
"""

from __future__ import annotations

from .jobs import pytorchjob, tfjob


def _edited(job: dict, *path: str, value: object) -> dict:
    part = job
    for key in path[:-1]:
        part = part[key]
    if value is None:
        part.pop(path[-1])
    else:
        part[path[-1]] = value
    return job


def _container(job: dict, role: str, **fields: object) -> dict:
    field = next(key for key in job["spec"] if key.endswith("ReplicaSpecs"))
    job["spec"][field][role]["template"]["spec"]["containers"][0].update(fields)
    return job


def _containers(job: dict, value: object) -> dict:
    return _edited(job, "spec", "tfReplicaSpecs", "Worker", "template", "spec", "containers", value=value)


def _without_image(job: dict) -> dict:
    del job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["image"]
    return job


def _nothing_in_it(job: dict) -> dict:
    job["spec"]["runPolicy"] = None
    return job


def _policy(**fields: object) -> dict:
    return tfjob("a", policy=fields, Worker=1)


def _pytorch(**spec: object) -> dict:
    job = pytorchjob("a", Master=1, Worker=1)
    job["spec"].update(spec)
    return job


SETTING = {"key": "a", "value": "b"}
NAMED = "must have at least one container with name"
#: A title, the job, and the words.
BAD: list[tuple[str, dict, str]] = [
    ("name begins with a digit", tfjob("00test", Worker=1), "metadata.name: Invalid value"),
    ("name ends with a dash", tfjob("test-", Worker=1), "metadata.name: Invalid value|metadata.name"),
    ("name with a dot", tfjob("a.b", Worker=1), "metadata.name: Invalid value"),
    ("name too long for its members", tfjob("x" * 55, Worker=1), "too long"),
    ("name too long for many members", tfjob("x" * 53, Worker=101), "too long"),
    ("unknown manager", _policy(managedBy="other"), "managedBy"),
    ("unknown clean pod policy", _policy(cleanPodPolicy="Foo"), "cleanPodPolicy"),
    ("negative deadline", _policy(activeDeadlineSeconds=-1), "activeDeadlineSeconds"),
    ("text for a truth", _policy(suspend="yes"), "suspend"),
    ("a figure as text", _policy(ttlSecondsAfterFinished="5"), "ttlSecondsAfterFinished"),
    ("a truth for a number", tfjob("a", Worker=True), "replicas"),
    ("negative back-off limit", _policy(backoffLimit=-1), "backoffLimit"),
    ("text for a number", _policy(ttlSecondsAfterFinished="soon"), "ttlSecondsAfterFinished"),
    ("unknown restart policy", tfjob("a", restart="Foo", Worker=1), "restartPolicy"),
    ("unknown success policy", _edited(tfjob("a", Worker=1), "spec", "successPolicy", value="Foo"), "successPolicy"),
    ("unknown rendezvous", _pytorch(elasticPolicy={"rdzvBackend": "foo"}), "rdzvBackend"),
    ("a deadline beyond reason", _policy(activeDeadlineSeconds=10**10 + 1), "activeDeadlineSeconds"),
    ("a limit beyond 32 bits", _policy(backoffLimit=2**31), "backoffLimit"),
    ("a queue's name too long", _policy(schedulingPolicy={"queue": "q" * 254}), "schedulingPolicy.queue"),
    ("part of a processor", _policy(schedulingPolicy={"minResources": {"cpu": 0.5}}), "minResources.cpu"),
    ("port zero", _pytorch(elasticPolicy={"rdzvPort": 0}), "rdzvPort"),
    ("a port too high", _pytorch(elasticPolicy={"rdzvPort": 65536}), "rdzvPort"),
    ("fewer than no workers", _pytorch(elasticPolicy={"minReplicas": -1}), "minReplicas"),
    ("processes per node too long", _pytorch(nprocPerNode="1" * 17), "nprocPerNode"),
    ("too many settings", _pytorch(elasticPolicy={"rdzvConf": [SETTING] * 65}), "rdzvConf"),
    ("a setting without value", _pytorch(elasticPolicy={"rdzvConf": [{"key": "a"}]}), "rdzvConf[0].value"),
    ("no replicas at all", tfjob("a"), "tfReplicaSpecs"),
    ("replica specs missing", _edited(tfjob("a", Worker=1), "spec", "tfReplicaSpecs", value=None), "tfReplicaSpecs"),
    ("negative replicas", tfjob("a", Worker=-1), "replicas"),
    ("absurdly many replicas", tfjob("a", Worker=10**9), "replicas"),
    ("too many replicas in sum", tfjob("a", Worker=60_000, PS=60_000), "no more than 100000 replicas in sum"),
    ("unknown role of a TFJob", tfjob("a", Foo=1), "Unsupported value"),
    ("unknown role of a PyTorchJob", pytorchjob("a", Chief=1), "Unsupported value"),
    ("lower-case role of a PyTorchJob", pytorchjob("a", worker=1), "Unsupported value"),
    ("a role twice in different cases", tfjob("a", Worker=1, worker=1), "Duplicate value"),
    ("chief and master", tfjob("a", Chief=1, Master=1), "must not have more than 1 Chief or Master role"),
    ("chief and master in lower case", tfjob("a", chief=1, master=1), "must not have more than 1 Chief or Master role"),
    ("no containers", _containers(tfjob("a", Worker=1), []), "Required value: must be specified"),
    ("no image", _container(tfjob("a", Worker=1), "Worker", image=""), "image: Required value"),
    ("image missing", _without_image(tfjob("a", Worker=1)), "image: Required value"),
    ("no container of that name (TF)", _container(tfjob("a", Worker=1), "Worker", name="x"), f"{NAMED} tensorflow"),
    ("no container of that name (PT)", _container(_pytorch(), "Worker", name="x"), f"{NAMED} pytorch"),
    ("two masters", pytorchjob("a", Master=2, Worker=1), "[Master].replicas: Forbidden: must be 1"),
    (
        "a master without a number",
        _edited(_pytorch(), "spec", "pytorchReplicaSpecs", "Master", "replicas", value=None),
        "[Master].replicas: Forbidden: must be 1",
    ),
    ("no workers", pytorchjob("a", Master=1, Worker=0), "[Worker].replicas: Forbidden: must be at least 1"),
    (
        "elastic without workers",
        _edited(pytorchjob("a", Master=1), "spec", "elasticPolicy", value={"minReplicas": 1}),
        "must be configured if elastic policy is used",
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
    ("a job of our own management", _policy(managedBy="kubeflow.org/training-operator")),
    ("a master and workers", pytorchjob("ddp", Master=1, Worker=3)),
    ("workers only", pytorchjob("workers", Worker=2)),
    ("an elastic job", _pytorch(elasticPolicy={"minReplicas": 1, "maxReplicas": 3, "rdzvBackend": "c10d"})),
    ("a run policy with nothing in it", _nothing_in_it(tfjob("a", Worker=1))),
    ("suspend with nothing after it", _policy(suspend=None)),
    ("a deadline at its bound", _policy(activeDeadlineSeconds=10**10)),
    ("a queue's longest name", _policy(schedulingPolicy={"queue": "q" * 253})),
    ("the highest port and all settings", _pytorch(elasticPolicy={"rdzvPort": 65535, "rdzvConf": [SETTING] * 64})),
    ("the longest processes per node", _pytorch(nprocPerNode="1" * 16)),
    ("every limit at zero", _policy(activeDeadlineSeconds=0, backoffLimit=0, ttlSecondsAfterFinished=0)),
]

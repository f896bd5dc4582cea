"""The shapes of TrainJobs and runtimes: what Trainer's API server refuses in them, as far as a conversion needs it."""

from __future__ import annotations

from functools import cache
from typing import Any

from trainshed import crd, strict
from trainshed.api.job import Document

from .losses import NotConvertible

TEXT, FLAG, ANYTHING = {"type": "string"}, {"type": "boolean"}, {"x-kubernetes-preserve-unknown-fields": True}
NUMBER = {"type": "integer"}
OBJECT: dict[str, Any] = {"type": "object", **ANYTHING}
TEXTS = {"type": "object", "additionalProperties": TEXT}
#: Fields of earlier versions of Trainer, and what is said of them besides.
REPLACED = dict.fromkeys(
    ("spec.podSpecOverrides", "spec.podTemplateOverrides"), "; Trainer 2.3 has spec.runtimePatches in its place"
)


def _object(*required: str, **properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "typed": True}


def _array(items: object) -> dict[str, Any]:
    return {"type": "array", "items": items, "typed": True}


@cache
def _pod_template() -> dict[str, Any]:
    return crd.template_schema()


def _job_fields(template: object) -> dict[str, Any]:
    numbers = dict.fromkeys(
        (
            *("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"),
            *("backoffLimitPerIndex", "maxFailedIndexes"),
        ),
        NUMBER,
    )
    texts = dict.fromkeys(("completionMode", "podReplacementPolicy", "managedBy"), TEXT)
    others = dict.fromkeys(("podFailurePolicy", "successPolicy", "selector"), OBJECT)
    return _object(template=template, suspend=FLAG, manualSelector=FLAG, **numbers, **texts, **others)


def _job_set(template: object) -> dict[str, Any]:
    depends = _array(_object("name", name=TEXT, status=TEXT))
    job = _object(
        "name",
        "template",
        name=TEXT,
        replicas=NUMBER,
        groupName=TEXT,
        dependsOn=depends,
        template=_object(metadata=strict.METADATA, spec=_job_fields(template)),
    )
    network = _object(enableDNSHostnames=FLAG, subdomain=TEXT, publishNotReadyAddresses=FLAG)
    success = _object(operator=TEXT, targetReplicatedJobs=_array(TEXT))
    others = dict.fromkeys(("startupPolicy", "coordinator"), OBJECT)
    return _object(
        replicatedJobs=_array(job),
        network=network,
        failurePolicy=_object(maxRestarts=NUMBER, restartStrategy=TEXT, rules=_array(OBJECT)),
        successPolicy=success,
        suspend=FLAG,
        managedBy=TEXT,
        ttlSecondsAfterFinished=NUMBER,
        volumeClaimPolicies={"type": "array", "items": ANYTHING},
        **others,
    )


@cache
def _runtime() -> dict[str, Any]:
    target = _object("jobName", "containerNames", jobName=TEXT, containerNames=_array(TEXT))
    mpi = _object(numProcPerNode=NUMBER, mpiImplementation=TEXT, sshAuthMountPath=TEXT, runLauncherAsNode=FLAG)
    policy = _object(
        numNodes=NUMBER,
        torch=_object(envInjection=_object(targets=_array(target))),
        mpi=mpi,
        flux=_object(numProcPerNode=NUMBER),
        jax=_object(),
        xgboost=_object(),
    )
    groups = _object(coscheduling=_object(scheduleTimeoutSeconds=NUMBER), volcano=OBJECT)
    template = _object(metadata=strict.METADATA, spec=_job_set(_pod_template()))
    spec = _object("template", mlPolicy=policy, podGroupPolicy=groups, template=template)
    return _object("spec", apiVersion=TEXT, kind=TEXT, metadata=strict.METADATA, spec=spec)


@cache
def _trainjob() -> dict[str, Any]:
    pod = _pod_template()["properties"]["spec"]["properties"]
    container = pod["containers"]["items"]["properties"]
    step = _object(storageUri=TEXT, env=container["env"], secretRef=_object(name=TEXT))
    trainer = _object(
        image=TEXT,
        command=_array(TEXT),
        args=_array(TEXT),
        env=container["env"],
        numNodes=NUMBER,
        numProcPerNode=NUMBER,
        resourcesPerNode=container["resources"],
    )
    patched = {name: container[name] for name in ("name", "env", "volumeMounts", "securityContext")}
    fields = (
        *("serviceAccountName", "volumes", "imagePullSecrets", "securityContext", "nodeSelector", "affinity"),
        *("tolerations", "schedulingGates", "terminationGracePeriodSeconds"),
    )
    containers = dict.fromkeys(("initContainers", "containers"), _array(_object("name", **patched)))
    pod_patch = _object(**{name: pod[name] for name in fields}, **containers)
    template = _object(metadata=strict.METADATA, spec=pod_patch)
    job = _object(metadata=strict.METADATA, spec=_object(template=template))
    jobs = _object(replicatedJobs=_array(_object("name", name=TEXT, template=job)))
    patch = _object(template=_object(metadata=strict.METADATA, spec=jobs))
    patches = _array(_object("manager", manager=TEXT, time=TEXT, trainingRuntimeSpec=patch))
    spec = _object(
        "runtimeRef",
        runtimeRef=_object("name", name=TEXT, apiGroup=TEXT, kind=TEXT),
        initializer=_object(dataset=step, model=step),
        trainer=trainer,
        runtimePatches=patches,
        suspend=FLAG,
        activeDeadlineSeconds=NUMBER,
        managedBy=TEXT,
    )
    return _object("spec", apiVersion=TEXT, kind=TEXT, metadata=strict.METADATA, spec=spec, status=ANYTHING)


def check(document: Document) -> None:
    """Raise `NotConvertible` with the first problem of a TrainJob or a runtime: a wrong type, or an unknown field."""
    schema = _trainjob() if document["kind"] == "TrainJob" else _runtime()
    for problem in strict.schema_problems(document, schema):
        path, _, what = problem.partition(": ")
        raise NotConvertible(path, what + REPLACED.get(path, ""))

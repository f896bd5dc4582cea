"""Jobs with an unknown name or a wrong type: one table for `trainshed render` and the API server."""

from __future__ import annotations

import copy

from trainshed.api.job_annotations import ANNOTATIONS

from .jobs import edited, pod_spec, pytorchjob, replicas, tfjob


def _worker(*path: object, value: object) -> dict:
    return edited(tfjob("a", Worker=1), "spec", "tfReplicaSpecs", "Worker", *path, value=value)


def _own(annotations: dict[str, object]) -> dict[str, object]:
    return {f"trainshed.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}


def _annotated(**annotations: object) -> dict:
    return edited(tfjob("a", Worker=1), "metadata", "annotations", value=_own(annotations))


def _on_template(**annotations: object) -> dict:
    return _worker("template", "metadata", value={"annotations": _own(annotations)})


CONTAINER = "spec.tfReplicaSpecs.Worker.template.spec.containers[0]"
FIRST = ("template", "spec", "containers", 0)
SETTING = {"key": "a", "value": "b", "x": 1}
#: The job, the path of the unknown field, and the name that was meant.
UNKNOWN_FIELDS: list[tuple[dict, str, str]] = [
    (tfjob("a", policy={"backofLimit": 3}, Worker=1), "spec.runPolicy.backofLimit", "backoffLimit"),
    (_worker("replica", value=2), "spec.tfReplicaSpecs.Worker.replica", "replicas"),
    (_worker(*FIRST, "imagePulPolicy", value="Always"), f"{CONTAINER}.imagePulPolicy", "imagePullPolicy"),
    (_worker(*FIRST, "resources", value={"limit": {}}), f"{CONTAINER}.resources.limit", "limits"),
    (edited(tfjob("a", Worker=1), "spec", "sucessPolicy", value=""), "spec.sucessPolicy", "successPolicy"),
    (edited(tfjob("a", Worker=1), "metadata", "anotations", value={}), "metadata.anotations", "annotations"),
    (edited(tfjob("a", Worker=1), "specs", value={}), "specs", "spec"),
    (edited(tfjob("a", Worker=1), "spec", "elasticPolicy", value={}), "spec.elasticPolicy", ""),
    (
        edited(pytorchjob("a", Worker=1), "spec", "elasticPolicy", value={"rdzvConf": [SETTING]}),
        "spec.elasticPolicy.rdzvConf[0].x",
        "",
    ),
]
#: The job, and the path of the value that has a wrong type, or is missing.
WRONG_TYPES: list[tuple[dict, str]] = [
    (_worker(*FIRST, "args", value="--epochs=3"), f"{CONTAINER}.args"),
    (_worker(*FIRST, "env", value=[{"name": "A", "value": 1}]), f"{CONTAINER}.env[0].value"),
    (_worker(*FIRST, "env", value=[{"value": "1"}]), f"{CONTAINER}.env[0].name"),
    (_worker(*FIRST, "resources", value={"limits": {"cpu": 0.5}}), f"{CONTAINER}.resources.limits.cpu"),
    (_worker(*FIRST, "resources", value={"limits": {"memory": "16GB"}}), f"{CONTAINER}.resources.limits.memory"),
    (_worker(*FIRST, "imagePullPolicy", value="always"), f"{CONTAINER}.imagePullPolicy"),
    (_worker(*FIRST, "tty", value="yes"), f"{CONTAINER}.tty"),
    (_worker("template", "spec", "hostNetwork", value=1), "spec.tfReplicaSpecs.Worker.template.spec.hostNetwork"),
    (_annotated(track_results=True), "metadata.annotations"),
]
#: The job, and the whole message.
BAD_ANNOTATIONS: list[tuple[dict, str]] = [
    (
        _annotated(restart_scop="Job"),
        (
            "metadata.annotations[trainshed.dev/restart-scop]: unknown annotation; supported annotations are "
            + ", ".join(sorted(ANNOTATIONS))
        ),
    ),
    (_annotated(restart_attempt="1"), "metadata.annotations[trainshed.dev/restart-attempt]: unknown annotation"),
    (
        _annotated(restart_scope="job"),
        (
            'metadata.annotations[trainshed.dev/restart-scope]: Unsupported value: "job": supported values: "Auto",'
            ' "Replica", "Role", "Job"'
        ),
    ),
    (
        _annotated(on_disruption=""),
        'metadata.annotations[trainshed.dev/on-disruption]: Unsupported value: "": supported values: "Replace", "Fail"',
    ),
    (
        _annotated(track_results="yes"),
        (
            'metadata.annotations[trainshed.dev/track-results]: Unsupported value: "yes": supported values: "false",'
            ' "true"'
        ),
    ),
    *(
        (
            _annotated(startup_deadline=value),
            (
                f'metadata.annotations[trainshed.dev/startup-deadline]: Invalid value: "{value}": must be a length of'
                " time from 1s to 8760h, such as 90s, 10m or 1h30m"
            ),
        )
        for value in ("", "10", "0s", "-5m", "1.5h", "5m1h", "8761h", "999999h", "99999999h", " 5m", "1d", "m")
    ),
    (
        _annotated(force_delete_after="soon"),
        'trainshed.dev/force-delete-after]: Invalid value: "soon": must be a length',
    ),
    (
        _on_template(restart_scope="Job"),
        (
            "spec.tfReplicaSpecs[Worker].template.metadata.annotations[trainshed.dev/restart-scope]: has no effect on a"
            " pod template; set it on the job"
        ),
    ),
]
GOOD_ANNOTATIONS: list[dict] = [
    *(_annotated(restart_scope=value) for value in ("Auto", "Replica", "Role", "Job")),
    *(
        _annotated(startup_deadline=value, force_delete_after="10m")
        for value in ("1s", "90s", "1h30m", "8760h", "525600m")
    ),
    _annotated(on_disruption="Fail", track_results="true"),
    _annotated(debug_server_port="25999"),
]


def foreign() -> dict:
    """Return a job with annotations of other programs, on itself and on its template."""
    found = copy.deepcopy(_on_template())
    found["metadata"]["annotations"] = {"example.trainshed.dev/ends": "Succeeded", "a.b/c": "d"}
    replicas(found, "Worker")["template"]["metadata"]["annotations"] = {"a.b/c": "d"}
    pod_spec(found, "Worker")["nodeSelector"] = {"trainshed.dev/x": "y"}
    return found

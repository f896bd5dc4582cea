"""What the pods of a job need to report to the progress endpoint: variables, a token, and the CA of its certificate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainshed.api.actions import Snapshot
from trainshed.api.framework import Framework, JobDefaults, own_container
from trainshed.api.job import Document, Job, ProgressSource
from trainshed.api.objects import CONFIG_MAPS, DesiredDependent

#: Trainer's API group, by whose paths clients report.
GROUP = "trainer.kubeflow.org/v1alpha1"
#: Trainer's folder of the token and the CA, and the variables that name them.
FOLDER, TOKEN_FILE, CA_FILE = "/var/run/secrets/kubeflow/trainer", "token", "ca.crt"
URL_VARIABLE, CA_VARIABLE, TOKEN_VARIABLE = (f"KUBEFLOW_TRAINER_SERVER_{part}" for part in ("URL", "CA_CERT", "TOKEN"))
#: Seconds that a token is valid; the kubelet renews it before.
TOKEN_SECONDS = 3600
VOLUME = "trainshed-progress"
#: The variables by which programs find a proxy for HTTPS, in lower case, and those that name what needs none.
PROXIES, NO_PROXIES = frozenset(("https_proxy", "all_proxy")), ("NO_PROXY", "no_proxy")


def audience(namespace: str, job: str) -> str:
    """Return the audience of the tokens of a job: Trainer's, the path of its status."""
    return f"{GROUP}/namespaces/{namespace}/trainjobs/{job}/status"


def reports(job: Job, job_defaults: JobDefaults) -> bool:
    """Return whether the pods of a job report to the endpoint: the job asks for it, and there is one."""
    return job.progress is ProgressSource.ENDPOINT and bool(job_defaults.progress_server)


def config_name(job: Job) -> str:
    """Return the name of the ConfigMap with the CA; jobs of several kinds may have one name."""
    return f"{job.name}-{job.kind.lower()}-progress"


def desired(snapshot: Snapshot) -> tuple[DesiredDependent, ...]:
    """Return the ConfigMap with the CA, once it is known."""
    authorities, job = snapshot.authorities, snapshot.job
    if not authorities or not reports(job, snapshot.job_defaults):
        return ()
    return (DesiredDependent(CONFIG_MAPS, config_name(job), {"data": {CA_FILE: authorities}}),)


def equip(framework: Framework, job: Job, job_defaults: JobDefaults, spec: dict[str, Any]) -> None:
    """Change the spec of a pod of a job that reports in place, so that the framework's container can do it.

    What the template has itself stays: with a volume or a mount of these names, nothing but variables is added.
    """
    containers: list[dict[str, Any]] = spec.get("containers") or []
    if not containers:
        return
    own = own_container(framework.container, containers)
    index = next(place for place, container in enumerate(containers) if container is own)
    container = containers[index]
    env = [*(container.get("env") or ()), *_variables(job, job_defaults.progress_server, container)]
    containers[index] = {**container, "env": env}
    volumes, mounts = spec.get("volumes") or (), container.get("volumeMounts") or ()
    if any(volume.get("name") == VOLUME for volume in volumes) or any(map(_is_there, mounts)):
        return
    spec["volumes"] = [*volumes, _volume(job)]
    containers[index]["volumeMounts"] = [*mounts, {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}]


def _is_there(mount: Document) -> bool:
    return str(mount.get("mountPath", "")).rstrip("/") == FOLDER


def _volume(job: Job) -> Document:
    """Return the volume. A training starts without the CA, too: it cannot report then, and nothing else."""
    token = {
        "audience": audience(job.namespace, job.name),
        "expirationSeconds": TOKEN_SECONDS,
        "path": TOKEN_FILE,
    }
    config = {"name": config_name(job), "items": [{"key": CA_FILE, "path": CA_FILE}], "optional": True}
    return {"name": VOLUME, "projected": {"sources": [{"serviceAccountToken": token}, {"configMap": config}]}}


def _variables(job: Job, server: str, container: Document) -> Iterator[Document]:
    """Yield the variables that the template does not set, then what completes those that name hosts without a proxy."""
    values = {
        URL_VARIABLE: f"https://{server}/apis/{audience(job.namespace, job.name)}",
        CA_VARIABLE: f"{FOLDER}/{CA_FILE}",
        TOKEN_VARIABLE: f"{FOLDER}/{TOKEN_FILE}",
    }
    there = {entry.get("name") for entry in container.get("env") or ()}
    yield from ({"name": name, "value": value} for name, value in values.items() if name not in there)
    host = server.rpartition(":")[0]
    known = [name for name in NO_PROXIES if name in there]
    # A kubelet resolves a name to the value that the list has given it so far, wherever that is from.
    yield from ({"name": name, "value": f"$({name}),{host}"} for name in known)
    has_proxy = any(str(name).lower() in PROXIES for name in there)
    if has_proxy and not known and not container.get("envFrom"):  # which may set them, and is not known here
        yield from ({"name": name, "value": host} for name in NO_PROXIES)

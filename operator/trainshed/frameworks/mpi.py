"""MPI: the launcher starts ranks in its workers by `kubectl exec`, prints what they print, and ends as they end.

Names and contents of the objects are v1's; PRTE_MCA_ and HYDRA_ are what Open MPI 5 and MPICH read in the place of its.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from trainshed.api.dependent import CONFIG_MAPS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, Wish
from trainshed.api.framework import Dresser, Enough, Environment, Framework, Goal, Variable
from trainshed.api.job import Document, Job, Member, RestartPolicy, Scope
from trainshed.api.site import Site

LAUNCHER, WORKER = "Launcher", "Worker"
#: Where launchers find their configuration and kubectl.
CONFIG, KUBECTL = "/etc/mpi", "/opt/kube"
HOSTFILE, KUBEXEC, DISCOVER = "hostfile", "kubexec.sh", "discover_hosts.sh"
RUNNABLE, READABLE = 0o555, 0o444
#: Under a gang scheduler the launcher starts together with its workers, and has to wait for each of them by itself.
WAIT = f'{KUBECTL}/kubectl wait --for=condition=Ready --timeout=600s "pod/$pod" >&2\n'
DELIVERY_NEEDS = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}


def scope(job: Job) -> Scope:
    """Ranks start and end together, unless the launcher asks who is there now and then, as elastic Horovod does."""
    launcher = job.of(LAUNCHER)
    return Scope.REPLICA if launcher and any(DISCOVER in word for word in _words(launcher.template)) else Scope.JOB


def environment(job: Job, _site: Site) -> Environment:
    """How each MPI finds its hosts and gets into them; for the launcher alone."""
    kubexec, hostfile = f"{CONFIG}/{KUBEXEC}", f"{CONFIG}/{HOSTFILE}"
    nvidia = {} if computes(job) else {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    told = {"OMPI_MCA_plm_rsh_agent": kubexec, "OMPI_MCA_orte_default_hostfile": hostfile, **nvidia}
    intel = {"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": kubexec}
    newer = {"PRTE_MCA_plm_ssh_agent": kubexec, "PRTE_MCA_prte_default_hostfile": hostfile}
    mpich = {"HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": kubexec}
    v1s = (Variable(name, value) for name, value in told.items())
    others = (Variable(name, value, yields=True) for name, value in {**intel, **newer, **mpich}.items())
    variables = (*v1s, *others)
    return lambda member: variables if member.role == LAUNCHER else ()


def dependents(job: Job, site: Site, running: tuple[str, ...]) -> tuple[Wish, ...]:
    """The launcher's configuration, and its right to start processes in its workers, and in nobody else."""
    name, account, workers = f"{job.name}-launcher", _account(job), _workers(job)
    labels = (("app", job.name),)
    hosts = [f"{name} slots={job.options.slots}"] if computes(job) else []
    hosts += [f"{worker} slots={job.options.slots}" for worker in workers]
    up = set(running)
    data = {
        HOSTFILE: "".join(f"{host}\n" for host in hosts),
        KUBEXEC: _kubexec(job, site),
        DISCOVER: _discover(job, sorted(worker for worker in workers if worker in up)),
    }
    enter = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"], "resourceNames": workers}]
    see = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": job.namespace}
    # One that the job does not name is its own: with somebody else's of that name it would come by rights unasked.
    return (
        Wish(SERVICE_ACCOUNTS, account, {}, labels, shared=bool(_named_account(job))),
        Wish(CONFIG_MAPS, config_name(job), {"data": data}, labels),
        # No names of pods would mean all pods: without workers there is no such rule.
        Wish(ROLES, name, {"rules": [see, *(enter if workers else ())]}, labels),
        Wish(ROLE_BINDINGS, name, {"roleRef": reference, "subjects": [subject]}, labels),
    )


def dress(job: Job, site: Site) -> Dresser:
    """Workers sleep until somebody comes in; the launcher has kubectl, its configuration and an account."""

    def worker(spec: dict[str, Any]) -> None:
        first = spec["containers"][0]
        if not first.get("command"):
            first.update(command=["sleep"], args=["365d"])
        _mount(spec, first, (_config(job, {KUBEXEC: RUNNABLE}), CONFIG))

    def launcher(spec: dict[str, Any]) -> None:
        config = _config(job, {KUBEXEC: RUNNABLE, HOSTFILE: READABLE, DISCOVER: RUNNABLE})
        kubectl = {"name": "mpi-job-kubectl", "emptyDir": {}}
        mounts = _mount(spec, spec["containers"][0], (kubectl, KUBECTL), (config, CONFIG))
        spec["serviceAccountName"] = _account(job)
        spec["initContainers"] = [*(spec.get("initContainers") or ()), _delivery(job, site, mounts)]

    return lambda member, spec: (launcher if member.role == LAUNCHER else worker)(spec)


def computes(job: Job) -> bool:
    """Whether the launcher asks for a GPU, and so is a host like the others; v1's rule."""
    launcher = job.of(LAUNCHER)
    containers = (launcher.template.get("spec") or {}).get("containers") or () if launcher else ()
    limits = ((container.get("resources") or {}).get("limits") or {} for container in containers)
    return any("gpu" in resource for found in limits for resource in found)


def config_name(job: Job) -> str:
    """The name of the ConfigMap."""
    return f"{job.name}-config"


def _account(job: Job) -> str:
    return _named_account(job) or f"{job.name}-launcher"


def _named_account(job: Job) -> str:
    launcher = job.of(LAUNCHER)
    spec = (launcher.template.get("spec") or {}) if launcher else {}
    return str(spec.get("serviceAccountName") or "")


def _workers(job: Job) -> list[str]:
    group = job.of(WORKER)
    return [f"{job.name}-{Member(WORKER, index)}" for index in range(group.count if group else 0)]


def _kubexec(job: Job, site: Site) -> str:
    container = f" --container {shlex.quote(job.options.main_container)}" if job.options.main_container else ""
    wait = WAIT if site.gang_scheduler else ""
    enter = f'{KUBECTL}/kubectl exec "$pod"{container} -- /bin/sh -c "$*"'
    return f'#!/bin/sh\nset -x\npod="$1"\nshift\n{wait}{enter}\n'


def _discover(job: Job, running: list[str]) -> str:
    own = f"\necho {job.name}-launcher:{job.options.slots}\n" if computes(job) else ""
    return "#!/bin/sh" + own + "".join(f"\necho {worker}:{job.options.slots}" for worker in running)


def _config(job: Job, items: dict[str, int]) -> Document:
    listed = [{"key": key, "path": key, "mode": mode} for key, mode in items.items()]
    return {"name": "mpi-job-config", "configMap": {"name": config_name(job), "items": listed}}


def _mount(spec: dict[str, Any], container: dict[str, Any], *volumes: tuple[Document, str]) -> list[Document]:
    mounts: list[Document] = [{"name": volume["name"], "mountPath": path} for volume, path in volumes]
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]
    spec["volumes"] = [*(spec.get("volumes") or ()), *(volume for volume, _ in volumes)]
    return mounts


def _delivery(job: Job, site: Site, mounts: list[Document]) -> Document:
    return {
        "name": "kubectl-delivery",
        "image": site.mpi_kubectl_image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "TARGET_DIR", "value": KUBECTL}, {"name": "NAMESPACE", "value": job.namespace}],
        "volumeMounts": mounts,
        "resources": {"limits": DELIVERY_NEEDS, "requests": DELIVERY_NEEDS},
    }


def _words(template: Document) -> Iterator[str]:
    """What the containers of a template run."""
    for container in (template.get("spec") or {}).get("containers") or ():
        for part in ("command", "args"):
            yield from (str(word) for word in container.get(part) or ())


MPI = Framework(
    kind="MPIJob",
    plural="mpijobs",
    label="mpi",
    field="mpiReplicaSpecs",
    roles=(LAUNCHER, WORKER),
    container="mpi",
    port_name="",
    port=0,
    restart_policy=RestartPolicy.NEVER,
    goal=lambda _job: Goal(LAUNCHER, Enough.ALL, qualified=False, serves=WORKER),
    leads=lambda _job, member: member.role == LAUNCHER,
    scope=scope,
    environment=environment,
    owns=(SERVICE_ACCOUNTS, CONFIG_MAPS, ROLES, ROLE_BINDINGS),
    dependents=dependents,
    gate=lambda _job, member: WORKER if member.role == LAUNCHER else "",
    dress=dress,
    everywhere=False,
    services=False,
    by_name=False,
    age_first=True,
    none_by_default=(WORKER,),
)

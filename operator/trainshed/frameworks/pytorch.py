"""PyTorch: rank 0 is the address everybody meets at; torchrun reads the same from variables that begin with PET_."""

from __future__ import annotations

from trainshed.api.dependent import AUTOSCALERS, Wish
from trainshed.api.framework import Enough, Environment, Framework, Goal, Variable
from trainshed.api.init_template import containers
from trainshed.api.job import Document, Elastic, Job, Member, RestartPolicy, Scope
from trainshed.api.site import Site

#: v1's loop, for whoever wants workers to wait until the master's name resolves; torch waits by itself.
WAIT = (
    "tries={tries}; until nslookup {host}; do tries=$((tries - 1)); "
    "[ $tries -gt 0 ] || exit 1; echo waiting for {host}; sleep 2; done"
)


def goal(job: Job) -> Goal | None:
    """The master decides; without one all workers do, and one is enough if the job is elastic."""
    if job.of("Master"):
        return Goal("Master", Enough.ALL, qualified=False)
    if not job.of("Worker"):
        return None
    return Goal("Worker", Enough.ANY if job.options.elastic else Enough.ALL, qualified=True)


def leader(job: Job) -> str:
    """The role whose replica 0 is rank 0."""
    return "Master" if job.of("Master") else "Worker"


def leads(job: Job, member: Member) -> bool:
    """Rank 0."""
    return member == Member(leader(job), 0)


def scope(job: Job) -> Scope:
    """torchrun takes in a lone newcomer if the job is elastic; otherwise a process group only starts whole."""
    return Scope.REPLICA if job.options.elastic else Scope.JOB


def environment(job: Job, _site: Site) -> Environment:
    """What `env://` and torchrun read, in v1's order."""
    elastic = job.options.elastic
    rendezvous = meet_elastically(job, elastic) if elastic else (Variable("PET_NNODES", str(job.size)),)
    nproc = job.options.nproc_per_node
    per_node = (Variable("PET_NPROC_PER_NODE", nproc),) if nproc else ()

    def variables(member: Member) -> tuple[Variable, ...]:
        return (Variable("PYTHONUNBUFFERED", "1"), *ranks(job, member), *per_node, *rendezvous)

    return variables


def ranks(job: Job, member: Member) -> tuple[Variable, ...]:
    """Where rank 0 is and which rank this is; an elastic job without master leaves both to torchrun."""
    first = leader(job)
    group = job.of(first)
    if group is None or (first == "Worker" and job.options.elastic):
        return ()
    nproc = job.options.nproc_per_node or ""
    world = job.size * (int(nproc) if nproc.isdecimal() else 1)
    rank = member.index + (1 if member.role != first else 0)
    host = f"{job.name}-{first.lower()}-0"
    return (
        Variable("MASTER_PORT", str(group.port)),
        Variable("PET_MASTER_PORT", str(group.port)),
        Variable("MASTER_ADDR", host),
        Variable("PET_MASTER_ADDR", host),
        Variable("WORLD_SIZE", str(world)),
        Variable("RANK", str(rank)),
        Variable("PET_NODE_RANK", str(rank)),
    )


def meet_elastically(job: Job, elastic: Elastic) -> tuple[Variable, ...]:
    """Where an elastic job's nodes meet, and how few or many may train."""
    group = job.of("Worker")
    port = elastic.port or (group.port if group else PYTORCH.port)
    host = elastic.host or f"{job.name}-worker-0"
    wanted = (
        ("PET_RDZV_ENDPOINT", f"{host}:{port}"),
        ("PET_RDZV_BACKEND", elastic.backend or "c10d"),
        ("PET_NNODES", f"{elastic.minimum}:{elastic.maximum}"),
        ("PET_MAX_RESTARTS", elastic.max_restarts),
        ("PET_NPROC_PER_NODE", elastic.nproc_per_node),
        ("PET_RDZV_ID", elastic.rdzv_id),
        ("PET_RDZV_CONF", ",".join(f"{key}={value}" for key, value in elastic.rdzv_conf) or None),
        ("PET_STANDALONE", "" if elastic.standalone else None),
    )
    # Since torch 2.4 whoever joins a later round waits for an address that only the first round published, and takes
    # the whole job along when it gives up (pytorch issue 135712); a store of its own for each round avoids that.
    cure = Variable("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1", yields=True)
    return (*(Variable(name, str(value)) for name, value in wanted if value is not None), cure)


def dependents(job: Job, _site: Site, _running: tuple[str, ...]) -> tuple[Wish, ...]:
    """v1's autoscaler, for an elastic job that says what it should go by."""
    elastic = job.options.elastic
    if elastic is None or not elastic.metrics:
        return ()
    spec = {
        "scaleTargetRef": {"apiVersion": job.api_version, "kind": job.kind, "name": job.name},
        "minReplicas": elastic.minimum,
        "maxReplicas": elastic.maximum,
        "metrics": list(elastic.metrics),
        "behavior": None,  # a job has no field for it, and one that was written by hand goes: v1's rule
    }
    return (Wish(AUTOSCALERS, job.name, {"spec": spec}),)


def waits(job: Job, member: Member, site: Site) -> tuple[Document, ...]:
    """v1's init container on workers, where the administrator asks for it."""
    if not (site.init_image and job.of("Master") and member.role == "Worker"):
        return ()
    host = f"{job.name}-master-0"
    if site.init_template:
        return containers(site.init_template, (host, site.init_image, str(site.init_tries)))
    script = WAIT.format(tries=site.init_tries, host=host)
    return (
        {
            "name": "init-pytorch",
            "image": site.init_image,
            "imagePullPolicy": "IfNotPresent",
            "resources": {
                "limits": {"cpu": "100m", "memory": "20Mi"},
                "requests": {"cpu": "50m", "memory": "10Mi"},
            },
            "command": ["sh", "-c", script],
        },
    )


PYTORCH = Framework(
    kind="PyTorchJob",
    plural="pytorchjobs",
    label="pytorch",
    field="pytorchReplicaSpecs",
    roles=("Master", "Worker"),
    container="pytorch",
    port_name="pytorchjob-port",
    port=23456,
    restart_policy=RestartPolicy.ON_FAILURE,
    goal=goal,
    leads=leads,
    scope=scope,
    environment=environment,
    owns=(AUTOSCALERS,),
    dependents=dependents,
    waits=waits,
    selectors=True,
    farewell="SuccessfulDeletePod",
)

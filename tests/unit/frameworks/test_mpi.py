"""MPIJob: the launcher's files and rights, and the workers' command."""

from __future__ import annotations

import subprocess

import pytest

from support.builders import a_job, a_pod, at, plan_for, replace, run_policy, seen
from trainshed.api.actions import CreateDependent, UpdateDependent
from trainshed.api.framework import JobDefaults, PodNames
from trainshed.api.job import Replica, RestartScope
from trainshed.api.objects import CONFIG_MAPS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, Dependent
from trainshed.api.status import Condition, ConditionType, Status
from trainshed.frameworks.mpi import MPI, MPIJobOptions
from trainshed.frameworks.mpi_v2beta1 import MPI_V2BETA1, MPIJobV2Options
from trainshed.plan import builders, plan

WORKERS = ("m-worker-0", "m-worker-1")
DONE = Condition(ConditionType.SUCCEEDED, True, "MPIJobSucceeded", "", at(9), at(9))

#: What a launcher may do with its workers.
RIGHTS = [(["pods"], ["get", "list", "watch"]), (["pods/exec"], ["create"])]


def stored_dependent(action, before=None) -> Dependent:
    """A dependent as the server stores it after its creation, or after an update of what was there before."""
    document = {**(before or {}), **(action.patch if before else action.body)}
    document["metadata"] = {"name": action.name, **document["metadata"], "uid": "u1"}
    known = {"uid": "u1", "version": "7", "owner": "job-uid", "namespace": "ml", "job": "m"}
    return Dependent(action.resource, action.name, document=document, **known)


def role_names(job, *pods, role, **fields) -> list | None:
    """The workers that this Role names after an update; None without an update."""
    found = update(job, *pods, role=role, **fields)
    return named(found.patch["rules"]) if found else None


def named(rules: list[dict]) -> list[str]:
    """The pods that these rules name, for all rights alike."""
    (config, *pods) = rules
    assert (config["resources"], config["verbs"], config["resourceNames"]) == (["configmaps"], ["get"], ["m-config"])
    assert [(rule["resources"], rule["verbs"]) for rule in pods] == RIGHTS[: len(pods)]
    assert len({tuple(rule["resourceNames"]) for rule in pods}) == (1 if pods else 0)
    return pods[0]["resourceNames"] if pods else []


def update(job, *pods, role, **fields) -> UpdateDependent | None:
    """The update of the job's Role, if there is one."""
    actions = plan(replace(seen(job, *pods, **fields), dependents=(role,))).actions
    return next((item for item in actions if isinstance(item, UpdateDependent) and item.resource is ROLES), None)


def template(command=(), limits=None, **spec) -> dict:
    """A pod template; `command` is the first container's."""
    container = {"name": "main", "image": "x", "resources": {"limits": limits or {}}}
    return {"spec": {"containers": [container | ({"command": list(command)} if command else {})], **spec}}


def a_run(worker=2, slots=4, **fields):
    """A job `m` with this number of workers."""
    options = MPIJobOptions(slots=slots, main_container=fields.pop("main", ""))
    return a_job("MPIJob", name="m", launcher=1, worker=worker, options=options, **fields)


def wishes(job, *running, job_defaults=None, existing=()) -> dict:
    """Return the dependents of the job, by kind, given its running and its existing pods."""
    found = MPI.hooks.dependents(job, job_defaults or JobDefaults(), PodNames(running, existing))
    return {wish.resource: wish for wish in found}


def data(job, *running, job_defaults=None) -> dict:
    """The data of its ConfigMap."""
    return wishes(job, *running, job_defaults=job_defaults)[CONFIG_MAPS].content["data"]


def spec(job, role, job_defaults=None, index=0) -> dict:
    """The spec of a member's pod."""
    return builders.pod_maker(MPI, job, job_defaults or JobDefaults())(Replica(role, index), 0).body["spec"]


def test_the_launcher_owns_its_configuration_and_may_enter_its_workers_only():
    found = wishes(a_run(), existing=WORKERS)
    assert {resource: wish.name for resource, wish in found.items()} == {
        SERVICE_ACCOUNTS: "m-launcher",
        CONFIG_MAPS: "m-config",
        ROLES: "m-launcher",
        ROLE_BINDINGS: "m-launcher",
    }
    assert all(wish.labels == (("app", "m"),) for wish in found.values())
    assert not [wish.resource for wish in found.values() if wish.shared]
    assert named(found[ROLES].content["rules"]) == ["m-worker-0", "m-worker-1"]
    assert found[ROLE_BINDINGS].content["roleRef"]["name"] == "m-launcher"
    assert found[ROLE_BINDINGS].content["subjects"] == [
        {"kind": "ServiceAccount", "name": "m-launcher", "namespace": "ml"}
    ]


@pytest.mark.parametrize(
    ("existing", "restart_scope", "entered"),
    [
        ((), None, []),
        (WORKERS[:1], None, []),
        (WORKERS, None, [*WORKERS]),
        (WORKERS[1:], RestartScope.REPLICA, ["m-worker-1"]),
        (("m-worker-2", "m-launcher"), RestartScope.REPLICA, []),
    ],
)
def test_the_role_names_only_workers_that_exist(existing, restart_scope, entered):
    """A name whose pod does not exist may become that of another job's pod."""
    rules = wishes(a_run(scope=restart_scope), existing=existing)[ROLES].content["rules"]
    assert named(rules) == entered


def test_the_role_is_written_once_when_all_workers_are_there_and_once_when_they_go():
    job = a_run()
    created = plan_for(job)
    roles = [action for action in created.actions if getattr(action, "resource", None) is ROLES]
    assert [type(action) for action in roles] == [CreateDependent]
    (role,) = roles
    stored = stored_dependent(role)
    pods = [a_pod(name, job="m", container="main") for name in ("worker-0", "worker-1")]
    assert role_names(job, pods[0], role=stored) is None
    assert role_names(job, *pods, role=stored) == [*WORKERS]
    full = stored_dependent(update(job, *pods, role=stored), {**stored.document})
    over = Status(start=at(0), completion=at(9), conditions=(DONE,))
    assert role_names(job, *pods, status=over, role=full) is None
    assert role_names(job, pods[0], status=over, role=full) == []
    suspended = replace(job, policy=run_policy(suspend=True))
    assert role_names(suspended, role=full) == []


def test_without_workers_nobody_may_be_entered():
    assert len(wishes(a_run(worker=0))[ROLES].content["rules"]) == 1
    assert len(wishes(a_job("MPIJob", name="m", launcher=1))[ROLES].content["rules"]) == 1


def test_the_hosts_are_the_workers():
    assert data(a_run())["hostfile"] == "m-worker-0 slots=4\nm-worker-1 slots=4\n"
    assert data(a_run(worker=0))["hostfile"] == ""


def test_a_launcher_with_a_gpu_is_a_host_too():
    for name, computes in (("nvidia.com/gpu", True), ("example.org/mygpus", True), ("vendor-domain/type", False)):
        job = a_run(template=template(limits={name: 1}))
        assert data(job)["hostfile"].startswith("m-launcher slots=4\n") is computes
        names = [entry["name"] for entry in spec(job, "Launcher")["containers"][0]["env"]]
        assert ("NVIDIA_VISIBLE_DEVICES" not in names) is computes
    job = a_run(template=template(limits={"nvidia.com/gpu": 1}))
    assert data(job, "m-worker-0")["discover_hosts.sh"] == "#!/bin/sh\necho m-launcher:4\n\necho m-worker-0:4"


def test_the_script_tells_who_runs_now():
    assert data(a_run())["discover_hosts.sh"] == "#!/bin/sh"
    assert data(a_run(), "m-launcher", "m-worker-0")["discover_hosts.sh"] == "#!/bin/sh\necho m-worker-0:4"
    job = a_run(worker=11)
    lines = data(job, *(f"m-worker-{index}" for index in (2, 10, 1)))["discover_hosts.sh"].splitlines()
    assert lines[1:] == ["echo m-worker-1:4", "echo m-worker-10:4", "echo m-worker-2:4"]


@pytest.mark.parametrize(("bound", "waits"), [(True, 3), (False, 1)])
def test_a_launcher_that_may_not_see_a_worker_yet_waits_until_the_role_names_it(bound, waits, tmp_path):
    kubectl, said = tmp_path / "kubectl", 'Error from server (Forbidden): pods "m-worker-0" is forbidden'
    kubectl.write_text(f"""#!/bin/sh
echo "$1" >>calls
case "$*" in
  wait*) [ "$(grep -c wait calls)" -gt 2 ] || {{ echo '{said}' >&2; exit 1; }};;
  get*) echo '{said}' >&2; exit 1;;
  "auth can-i get configmaps/m-config") exit {0 if bound else 1};;
esac
""")
    kubectl.chmod(0o755)
    script = data(a_run())["kubexec.sh"].replace("/opt/kube/kubectl", str(kubectl))
    subprocess.run(["sh", "-c", script, "kubexec.sh", "m-worker-0", "orted"], cwd=tmp_path, check=True)
    calls = (tmp_path / "calls").read_text().split()
    assert (calls.count("wait"), calls[-1]) == (waits, "exec")


def test_kubexec_waits_for_a_pod_and_enters_it():
    last = data(a_run())["kubexec.sh"].splitlines()
    assert last[0] == "#!/bin/sh"
    assert last[-1] == '/opt/kube/kubectl exec "$pod" --container mpi -- /bin/sh -c "$*"'
    assert "--container main" in data(a_run(main="main"))["kubexec.sh"]


@pytest.mark.parametrize("main", ["main", "a b", "x; touch owned", "$(touch owned)", "`touch owned`", "'\"", "a\nb"])
def test_whatever_the_main_container_is_called_kubexec_runs_kubectl_and_nothing_else(main, tmp_path):
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
    kubectl.chmod(0o755)
    script = data(a_run(main=main))["kubexec.sh"].replace("/opt/kube/kubectl", str(kubectl))
    command = ["sh", "-c", script, "kubexec.sh", "m-worker-0", "orted", "--id 1"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    words = ["exec", "m-worker-0", "--container", main, "--", "/bin/sh", "-c", "orted --id 1"]
    assert found.stdout.split("\0") == [*words, ""]
    assert [file.name for file in tmp_path.iterdir()] == ["kubectl"]


def test_a_launcher_finds_kubectl_and_its_configuration():
    found = spec(a_run(), "Launcher")
    mounts = [
        {"name": "mpi-job-kubectl", "mountPath": "/opt/kube"},
        {"name": "mpi-job-config", "mountPath": "/etc/mpi"},
    ]
    assert found["containers"][0]["volumeMounts"] == mounts
    assert found["serviceAccountName"] == "m-launcher"
    (delivery,) = found["initContainers"]
    assert (delivery["name"], delivery["image"], delivery["volumeMounts"]) == (
        "kubectl-delivery",
        "ghcr.io/trainshed/kubectl-delivery:v1.36.1",
        mounts,
    )
    assert {entry["name"]: entry["value"] for entry in delivery["env"]} == {
        "TARGET_DIR": "/opt/kube",
        "NAMESPACE": "ml",
    }
    needs = {"cpu": "100m", "memory": "64Mi"}
    assert delivery["resources"] == {"limits": needs, "requests": needs}
    kubectl, config = found["volumes"]
    assert kubectl == {"name": "mpi-job-kubectl", "emptyDir": {}}
    assert {item["path"]: item["mode"] for item in config["configMap"]["items"]} == {
        "kubexec.sh": 0o555,
        "hostfile": 0o444,
        "discover_hosts.sh": 0o555,
    }
    assert config["configMap"]["name"] == "m-config"
    assert "ports" not in found["containers"][0]


def test_a_launcher_keeps_the_account_that_it_names():
    job = a_run(template=template(serviceAccountName="mine"))
    assert spec(job, "Launcher")["serviceAccountName"] == "mine"
    assert wishes(job)[SERVICE_ACCOUNTS].name == "mine"
    assert [wish.resource for wish in wishes(job).values() if wish.shared] == [SERVICE_ACCOUNTS]


@pytest.mark.parametrize("account", ["default", "builder"])
def test_an_account_that_others_may_use_gets_no_right_unless_the_administrator_says_so(account):
    job = a_run(template=template(serviceAccountName=account))
    assert ROLE_BINDINGS not in wishes(job)
    (event,) = [event for event in plan_for(job).events if event.reason == "ServiceAccountNotBound"]
    assert f"the service account {account} exec into the workers" in event.message
    allowed = JobDefaults(mpi_bind_named_accounts=True)
    (subject,) = wishes(job, job_defaults=allowed)[ROLE_BINDINGS].content["subjects"]
    assert subject["name"] == account
    assert "ServiceAccountNotBound" not in [event.reason for event in plan_for(job, job_defaults=allowed).events]


def test_a_launcher_may_name_the_account_that_is_the_jobs_own():
    job = a_run(template=template(serviceAccountName="m-launcher"))
    assert not [wish for wish in wishes(job).values() if wish.shared]
    assert wishes(job)[ROLE_BINDINGS].content["subjects"][0]["name"] == "m-launcher"


def test_workers_sleep_unless_they_have_something_to_do():
    found = spec(a_run(), "Worker")
    assert (found["containers"][0]["command"], found["containers"][0]["args"]) == (["sleep"], ["365d"])
    assert "env" not in found["containers"][0]
    (config,) = found["volumes"]
    assert [item["path"] for item in config["configMap"]["items"]] == ["kubexec.sh"]
    assert spec(a_run(template=template(["sshd"])), "Worker")["containers"][0]["command"] == ["sshd"]


def test_the_launcher_has_v1s_variables_in_their_order_and_then_those_of_newer_names():
    env = [(entry["name"], entry["value"]) for entry in spec(a_run(), "Launcher")["containers"][0]["env"]]
    assert env[:6] == [
        ("OMPI_MCA_plm_rsh_agent", "/etc/mpi/kubexec.sh"),
        ("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"),
        ("NVIDIA_VISIBLE_DEVICES", ""),
        ("NVIDIA_DRIVER_CAPABILITIES", ""),
        ("I_MPI_HYDRA_BOOTSTRAP", "rsh"),
        ("I_MPI_HYDRA_BOOTSTRAP_EXEC", "/etc/mpi/kubexec.sh"),
    ]
    assert dict(env[6:]) == {
        "PRTE_MCA_plm_ssh_agent": "/etc/mpi/kubexec.sh",
        "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": "/etc/mpi/kubexec.sh",
    }


def test_a_launcher_that_looks_for_hosts_now_and_then_stands_the_loss_of_one():
    assert MPI.hooks.scope(a_run()) is RestartScope.JOB
    elastic = template(["horovodrun", "--host-discovery-script", "/etc/mpi/discover_hosts.sh"])
    assert MPI.hooks.scope(a_run(template=elastic)) is RestartScope.REPLICA
    assert MPI.hooks.scope(a_job("MPIJob", name="m", worker=1)) is RestartScope.JOB


@pytest.mark.parametrize("framework", [MPI, MPI_V2BETA1], ids=lambda framework: framework.version)
def test_a_volume_or_a_path_that_the_operator_adds_fails_the_job_with_the_reason(framework):
    mount = {"name": "mine", "mountPath": "/etc/mpi"}
    container = {"name": "main", "image": "x", "volumeMounts": [mount, {"name": "mine", "mountPath": "/data"}]}
    spec = {"containers": [container], "volumes": [{"name": "mine"}, {"name": "mpi-job-config"}]}
    job = a_job("MPIJob", name="m", launcher=1, template={"spec": spec})
    at = "spec.mpiReplicaSpecs[Launcher].template.spec"
    assert framework.hooks.validate(job, JobDefaults()) == (
        f'{at}.volumes[*].name: Invalid value: "mpi-job-config": is added by the operator',
        f'{at}.containers[0].volumeMounts[*].mountPath: Invalid value: "/etc/mpi": is added by the operator',
    )


@pytest.mark.parametrize("framework", [MPI, MPI_V2BETA1], ids=lambda framework: framework.version)
def test_a_hostfile_that_no_config_map_can_hold_fails_the_job_with_the_reason(framework):
    name, defaults = "m" * 40, JobDefaults(cluster_domain="cluster.local")
    for count in (10, 1_000, 3_000, 8_000, 20_000):
        job = a_job("MPIJob", name=name, launcher=1, worker=count)
        everyone = [f"{name}-worker-{index}" for index in range(count)]
        wanted = framework.hooks.dependents(job, defaults, PodNames(everyone, everyone))
        (config,) = (wish for wish in wanted if wish.resource is CONFIG_MAPS)
        size = sum(map(len, config.content["data"].values()))
        problems = framework.hooks.validate(job, defaults)
        assert problems or size <= 2**20, count
        assert not problems or size > 2**19, count


def test_a_pod_of_v2beta1_that_the_server_would_refuse_fails_the_job_with_the_reason():
    searches = [f"d{number}.example" for number in range(32)]
    spec = {"containers": [{"name": "main", "image": "x"}], "dnsConfig": {"searches": searches}}
    job = a_job("MPIJob", name="m", launcher=1, template={"spec": spec}, options=MPIJobV2Options(ssh_path="/etc/mpi"))
    assert MPI_V2BETA1.hooks.validate(job, JobDefaults()) == (
        "spec.sshAuthMountPath: Invalid value: must not be the path of the configuration",
        (
            "spec.mpiReplicaSpecs[Launcher].template.spec.dnsConfig.searches: Invalid value: has no space for one more"
            " domain"
        ),
    )


PODS = [a_pod(name, job="m", container="main") for name in ("launcher", "worker-0", "worker-1")]
ONE_BY_ONE = {"scope": RestartScope.REPLICA}
UNMANAGED = {**ONE_BY_ONE, "policy": run_policy(managed_elsewhere=True)}


def full_role() -> Dependent:
    """The Role of a job whose pods all exist."""
    return stored_dependent(next(found for found in plan_for(a_run(), *PODS).actions if found.resource is ROLES))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"deleting": True}, []),
        ({**ONE_BY_ONE, "problems": ("no",)}, ["m-worker-1"]),
        (UNMANAGED, ["m-worker-1"]),
        ({**ONE_BY_ONE, "policy": run_policy(deadline=5)}, ["m-worker-1"]),
    ],
    ids=["deleted, which a finalizer delays", "invalid", "managed by another controller", "failed by its deadline"],
)
def test_no_rule_leaves_the_name_of_a_pod_that_is_gone_in_the_role(changed, named):
    job, (launcher, _, second) = replace(a_run(), **changed), PODS
    status = Status(start=at(0), conditions=(Condition(ConditionType.RUNNING, True, "", "", at(0), at(0)),))
    assert role_names(job, launcher, second, status=status, now=at(9), role=full_role()) == named


def test_the_role_that_another_controller_has_written_for_its_job_is_left_to_it():
    role = full_role()
    theirs = replace(role, document={**role.document, "metadata": {"name": "m-launcher", "labels": {}}})
    assert role_names(replace(a_run(), **UNMANAGED), PODS[0], role=theirs) is None

"""MPIJob of v2beta1: parsing, created objects, and their order."""

from __future__ import annotations

import pytest

from support.builders import at, made
from support.mpi_v2beta1_jobs import a_run, data, env, launcher, plan_for, pod, spec_of, worker
from support.replace import replace
from trainshed.api.actions import CreateDependent, CreatePod, CreateService, CreateSshSecret
from trainshed.api.framework import JobDefaults
from trainshed.api.job import Replica, RestartPolicy, RestartScope
from trainshed.frameworks.mpi_v2beta1 import MPI_V2BETA1

LABEL = "training.kubeflow.org/"


def test_what_is_left_open_is_mpi_operators():
    job = a_run(3)
    assert job.api_version == "kubeflow.org/v2beta1"
    assert (job.options.slots, job.options.ssh_path, job.options.implementation) == (1, "/root/.ssh", "OpenMPI")
    assert not job.options.launcher_is_worker
    assert {group.role: (group.count, group.restart_policy) for group in job.groups} == {
        "Launcher": (1, RestartPolicy.ON_FAILURE),
        "Worker": (3, RestartPolicy.NEVER),
    }
    assert job.policy.backoff_limit == 6, "as a batch/v1 Job, which the launcher was"
    assert a_run(policy={"backoffLimit": 0}).policy.backoff_limit == 0
    assert a_run(launcher={"restartPolicy": "Never"}).groups[0].restart_policy is RestartPolicy.NEVER


@pytest.mark.parametrize("empty", [None, ""])
def test_a_field_that_is_null_or_empty_has_mpi_operators_default(empty):
    fields = dict.fromkeys(("sshAuthMountPath", "launcherCreationPolicy"), empty)
    nulls = dict.fromkeys(("slotsPerWorker", "runLauncherAsWorker", "mpiImplementation"))
    job = a_run(**fields, **nulls)
    assert (job.problems, job.options) == ((), a_run().options)


def test_who_manages_a_job_goes_by_mpi_operators_name():
    assert not a_run(policy={"managedBy": "kubeflow.org/mpi-operator"}).policy.managed_elsewhere
    assert a_run(policy={"managedBy": "kueue.x-k8s.io/multikueue"}).policy.managed_elsewhere
    assert a_run(policy={"managedBy": "kubeflow.org/training-operator"}).problems


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"worker": 0}, "spec.mpiReplicaSpecs[Worker].replicas: Invalid value"),
        ({"worker_group": {"replicas": None}}, "spec.mpiReplicaSpecs[Worker].replicas: Invalid value"),
        ({"launcher": {"replicas": 2}}, "spec.mpiReplicaSpecs[Launcher].replicas: Forbidden"),
        ({"launcher": {"restartPolicy": "Always"}}, ".restartPolicy: Invalid value"),
        ({"mpiImplementation": "LAM"}, 'spec.mpiImplementation: Unsupported value: "LAM"'),
        ({"launcherCreationPolicy": "Later"}, 'spec.launcherCreationPolicy: Unsupported value: "Later"'),
    ],
)
def test_invalid_jobs_are_refused(fields, problem):
    (text,) = a_run(**fields).problems
    assert problem in text


def test_a_launcher_may_be_alone():
    assert a_run(None).problems == ()
    assert data(a_run(None)) == {"hostfile": "", "discover_hosts.sh": "#!/bin/sh\n"}
    assert MPI_V2BETA1.hooks.scope(a_run(None)) is RestartScope.JOB
    alone = replace(a_run(), groups=a_run().groups[1:])
    assert MPI_V2BETA1.hooks.scope(alone) is RestartScope.JOB
    assert MPI_V2BETA1.hooks.init_containers(alone, Replica("Launcher", 0), JobDefaults(gang_scheduler="x")) == ()


def test_the_hosts_are_named_as_each_mpi_reads_them():
    hosts = ["m-worker-0.m.ml.svc", "m-worker-1.m.ml.svc"]
    assert data(a_run(slotsPerWorker=4))["hostfile"] == "".join(f"{host} slots=4\n" for host in hosts)
    for other in ("Intel", "MPICH"):
        found = data(a_run(slotsPerWorker=4, mpiImplementation=other))["hostfile"]
        assert found == "".join(f"{host}:4\n" for host in hosts)
    named = data(a_run(1), job_defaults=JobDefaults(cluster_domain="example.org"))["hostfile"]
    assert named == "m-worker-0.m.ml.svc.example.org slots=1\n"


def test_a_launcher_that_works_is_the_first_host():
    job = a_run(1, runLauncherAsWorker=True)
    assert data(job)["hostfile"] == "m-launcher.m.ml.svc slots=1\nm-worker-0.m.ml.svc slots=1\n"
    assert data(job, "m-worker-0")["discover_hosts.sh"].splitlines()[1:] == [
        "echo m-launcher.m.ml.svc",
        "echo m-worker-0.m.ml.svc",
    ]
    assert pod(job, "Worker")["metadata"]["labels"][f"{LABEL}replica-index"] == "1"
    assert "NVIDIA_VISIBLE_DEVICES" not in env(job, "Launcher")
    assert env(a_run(), "Launcher")["NVIDIA_VISIBLE_DEVICES"] == ""


def test_the_script_tells_who_runs_now():
    assert data(a_run())["discover_hosts.sh"] == "#!/bin/sh\n"
    found = data(a_run(11), "m-worker-2", "m-worker-10", "m-launcher", "m-worker-1")["discover_hosts.sh"]
    assert found.splitlines()[1:] == [f"echo m-worker-{index}.m.ml.svc" for index in (1, 10, 2)]


def test_members_are_found_in_one_domain_under_mpi_operators_labels():
    (service,) = [action for action in plan_for(a_run(), services=False).actions if isinstance(action, CreateService)]
    labels = {f"{LABEL}operator-name": "mpi-operator", f"{LABEL}job-name": "m"}
    assert service.name == "m"
    assert service.body["metadata"]["labels"] == labels | {"app": "m"}
    assert service.body["spec"] == {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels}
    for role, name in (("Launcher", "m-launcher"), ("Worker", "m-worker-0")):
        found = pod(a_run(), role)
        assert (found["spec"]["hostname"], found["spec"]["subdomain"]) == (name, "m")
        assert labels.items() <= found["metadata"]["labels"].items()
        assert found["metadata"]["labels"][f"{LABEL}job-role"] == role.lower()
        assert found["metadata"]["labels"][f"{LABEL}replica-index"] == "0"
        (owner,) = found["metadata"]["ownerReferences"]
        assert owner["apiVersion"] == "kubeflow.org/v2beta1"


def test_workers_wait_for_ssh_and_find_the_launcher_by_its_bare_name():
    found = pod(a_run(), "Worker", 1)["spec"]
    assert found["containers"][0]["command"] == ["/usr/sbin/sshd", "-De"]
    assert found["dnsConfig"] == {"searches": ["m.ml.svc.cluster.local"]}
    assert found["restartPolicy"] == "Never"
    assert "dnsPolicy" not in found
    own = a_run(worker_group=spec_of({"args": ["sleep"]}, hostNetwork=True, dnsConfig={"searches": ["example.org"]}))
    found = pod(own, "Worker")["spec"]
    assert "command" not in found["containers"][0]
    assert found["dnsConfig"]["searches"] == ["example.org", "m.ml.svc.cluster.local"]
    launcher = pod(own, "Launcher")["spec"]
    assert launcher["dnsConfig"] == {"searches": ["m.ml.svc.cluster.local"]}, "its short name is one of DNS, too"
    assert found["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert env(a_run(), "Worker") == {"K_MPI_JOB_ROLE": "worker"}


def test_keys_are_where_ssh_looks_for_them():
    (action,) = [action for action in plan_for(a_run()).actions if isinstance(action, CreateSshSecret)]
    assert (action.body["kind"], action.body["type"]) == ("Secret", "kubernetes.io/ssh-auth")
    assert "data" not in action.body
    for role in ("Launcher", "Worker"):
        found = pod(a_run(), role)["spec"]
        volume = next(volume for volume in found["volumes"] if volume["name"] == "ssh-auth")
        assert volume["secret"]["secretName"] == action.name
        assert volume["secret"]["defaultMode"] == 0o600
        assert {item["path"]: item["key"] for item in volume["secret"]["items"]} == {
            "id_rsa": "ssh-privatekey",
            "id_rsa.pub": "ssh-publickey",
            "authorized_keys": "ssh-publickey",
        }
        assert {"name": "ssh-auth", "mountPath": "/root/.ssh"} in found["containers"][0]["volumeMounts"]
    other = pod(a_run(sshAuthMountPath="/keys"), "Worker")["spec"]
    assert "defaultMode" not in other["volumes"][0]["secret"]
    assert other["containers"][0]["volumeMounts"] == [{"name": "ssh-auth", "mountPath": "/keys"}]


def test_a_secret_is_one_jobs_and_no_namesakes():
    job = a_run()
    assert MPI_V2BETA1.hooks.ssh_secret_name(job) == MPI_V2BETA1.hooks.ssh_secret_name(replace(job, version="2"))
    assert MPI_V2BETA1.hooks.ssh_secret_name(job) != MPI_V2BETA1.hooks.ssh_secret_name(replace(job, uid="another"))
    assert MPI_V2BETA1.hooks.ssh_secret_name(job).startswith("m-ssh-")


def test_keys_are_asked_for_whenever_pods_are_made_and_only_then():
    ready = [worker(index, ready=True) for index in range(2)]
    assert [type(action) for action in plan_for(a_run(), *ready).actions] == [
        CreateDependent,
        CreateSshSecret,
        CreatePod,
    ]
    assert not any(isinstance(action, CreateSshSecret) for action in plan_for(a_run(), launcher(), *ready).actions)


def test_the_launcher_finds_its_configuration():
    found = pod(a_run(), "Launcher")["spec"]
    assert {"name": "mpi-job-config", "mountPath": "/etc/mpi"} in found["containers"][0]["volumeMounts"]
    volume = next(volume for volume in found["volumes"] if volume["name"] == "mpi-job-config")
    assert {item["path"]: item["mode"] for item in volume["configMap"]["items"]} == {
        "hostfile": 0o444,
        "discover_hosts.sh": 0o555,
    }
    assert found["restartPolicy"] == "OnFailure"


@pytest.mark.parametrize(
    ("implementation", "variables"),
    [
        (
            "OpenMPI",
            {
                "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
                "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
                "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
                "OMPI_MCA_orte_set_default_slots": "3",
                "PRTE_MCA_prte_default_hostfile": "/etc/mpi/hostfile",
                "PRTE_MCA_plm_ssh_args": "-o ConnectionAttempts=10",
            },
        ),
        (
            "Intel",
            {
                "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
                "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
                "I_MPI_PERHOST": "3",
            },
        ),
        (
            "MPICH",
            {
                "HYDRA_HOST_FILE": "/etc/mpi/hostfile",
                "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10",
                "HYDRA_LAUNCHER_EXTRA_ARGS": "-o ConnectionAttempts=10",
            },
        ),
    ],
)
def test_the_launcher_gets_the_variables_that_its_mpi_reads(implementation, variables):
    job = a_run(mpiImplementation=implementation, slotsPerWorker=3, runLauncherAsWorker=True)
    assert env(job, "Launcher") == {"K_MPI_JOB_ROLE": "launcher", **variables}


def test_the_launcher_comes_when_its_workers_are_ready_if_the_spec_says_so():
    job = a_run(launcherCreationPolicy="WaitForWorkersReady")
    assert made(plan_for(job)) == ["m-worker-0", "m-worker-1"]
    assert made(plan_for(job, worker(0, ready=True), worker(1), now=at(999))) == []
    assert made(plan_for(job, worker(0, ready=True), worker(1, ready=True))) == ["m-launcher"]
    assert "initContainers" not in pod(job, "Launcher")["spec"]


def test_a_launcher_that_is_wanted_at_once_waits_by_itself():
    same = {"resources": {"limits": {"cpu": "1"}}, "securityContext": {"runAsUser": 1000}}
    job = a_run(launcher=spec_of(same))
    assert made(plan_for(job)) == ["m-launcher", "m-worker-0", "m-worker-1"]
    assert pod(a_run(launcherCreationPolicy="AtStartup"), "Launcher") == pod(a_run(), "Launcher")
    found = pod(job, "Launcher")["spec"]
    (waiter,) = found["initContainers"]
    assert {part: waiter[part] for part in ("image", *same)} == {"image": "x", **same}
    assert waiter["volumeMounts"] == found["containers"][0]["volumeMounts"]
    assert waiter["command"][:2] == ["sh", "-c"]
    assert "in m-launcher.*) continue;;" in waiter["command"][2]
    assert "initContainers" not in pod(job, "Worker")["spec"]


def test_a_launcher_that_is_placed_with_its_workers_waits_by_itself_too():
    job_defaults = JobDefaults(gang_scheduler="some-scheduler")
    assert made(plan_for(a_run(), job_defaults=job_defaults)) == ["m-launcher", "m-worker-0", "m-worker-1"]
    assert (
        pod(a_run(), "Launcher", job_defaults=job_defaults)["spec"]["initContainers"][0]["name"] == "wait-for-workers"
    )

"""Schedules for which the auditor or the simulated cluster was wrong, each shrunk: none may be reported again."""

from __future__ import annotations

import pytest

from simulation.runner import run
from simulation.schedule import JobRequest, Schedule, Step
from simulation.test_found_schedules import ALONE, FAIL_ON_DISRUPTION, TRACKED, WITH_ROLE, create

AT_ONCE = (("ttlSecondsAfterFinished", 0), ("activeDeadlineSeconds", 0))
QUEUED = ("kueue.x-k8s.io/queue-name", "research")
FALSE_ALARMS = {
    "a namespace that a user creates again a minute later is nothing that the operator is late with": Schedule(
        seed=1,
        steps=(
            create("XGBoostJob", "a", (("Master", 1),), annotations=(TRACKED,)),
            Step(0.006, "delete namespace"),
        ),
    ),
    "pods to delete for a restart may be deleted after another leader has ended the job": Schedule(
        seed=195825,
        operators=2,
        steps=(
            create(
                "PaddleJob",
                "a",
                (("Worker", 3),),
                "ExitCode",
                policy=(("cleanPodPolicy", "Running"), ("activeDeadlineSeconds", 3), ("backoffLimit", 0)),
                annotations=(WITH_ROLE,),
            ),
            Step(1.0, "recover nodes"),
            Step(0.0, "disrupt", 3, how="EvictionByEvictionAPI"),
            Step(0.005, "freeze", 7, how=14.0),
            Step(5.0, "no quota"),
            Step(0.0, "delete lease"),
            Step(1.0, "recover nodes"),
        ),
    ),
    "a pod whose owner was removed during an outage may be deleted for a little longer": Schedule(
        seed=220089,
        steps=(
            create("JAXJob", "a", (("Worker", 2),), "OnFailure"),
            Step(1.0, "outage", how=20.0),
            Step(0.0, "disrupt", how="TerminationByKubelet"),
            Step(0.0, "remove metadata", 1, how="owner"),
            Step(30.0, "succeed"),
        ),
    ),
    "a job that waits for a pod without its label is not quiet until it has asked for it again": Schedule(
        seed=216679,
        steps=(
            create("MPIJob", "a", (("Launcher", 1), ("Worker", 2))),
            Step(5.0, "remove metadata", 2, how="labels"),
            Step(0.0, "disrupt", how="DeletionByPodGC"),
            Step(1.0, "delete pod"),
            Step(1.0, "oom", how=137),
        ),
    ),
    "a failed job may have as many active replicas as before when its counts are stored late": Schedule(
        seed=1639474894,
        operators=2,
        finish=True,
        steps=(
            create(
                "XGBoostJob",
                "a",
                (("Master", 1), ("Worker", 3)),
                "ExitCode",
                policy=(("backoffLimit", 3),),
                annotations=(FAIL_ON_DISRUPTION,),
            ),
            Step(0.179, "delete lease", 1),
            Step(1.231, "fail", how=1),
            Step(0.0, "image error", 6, how="CreateContainerConfigError"),
            Step(0.392, "disrupt", 6, how="TerminationByKubelet"),
        ),
    ),
    "a back-off lasts until the time by the clock that stored it": Schedule(
        seed=596079,
        steps=(
            create(
                "MPIJob",
                "a",
                (("Launcher", 1), ("Worker", 1)),
                "ExitCode",
                policy=(("cleanPodPolicy", "All"),),
                annotations=(ALONE,),
            ),
            Step(1.0, "reject", how="NodeAffinity"),
            Step(1.0, "reject", how="OutOfcpu"),
            Step(5.0, "kill at write", how=(4, "after")),
            Step(0.0, "reject", how="UnexpectedAdmissionError"),
            Step(0.0, "reject", how="UnexpectedAdmissionError"),
            Step(0.0, "step clock", how=600.0),
            Step(5.0, "reject", how="OutOfmemory"),
            Step(0.0, "reject", how="UnexpectedAdmissionError"),
        ),
    ),
    "a replica that succeeded and was scaled down may be created again when it is scaled up": Schedule(
        seed=575228,
        steps=(
            create(
                "JAXJob",
                "a",
                (("Worker", 2),),
                "OnFailure",
                annotations=(WITH_ROLE, TRACKED),
            ),
            Step(1.0, "succeed"),
            Step(0.0, "set field", how=("jaxReplicaSpecs.Worker.replicas", 0)),
            Step(1.0, "set field", how=("jaxReplicaSpecs.Worker.replicas", 4)),
        ),
    ),
    "an MPIJob may have its cleanPodPolicy beside the run policy": Schedule(
        seed=0,
        steps=(
            create(
                "MPIJob",
                "a",
                (("Launcher", 1),),
                policy=(("activeDeadlineSeconds", 0),),
                spec=(("cleanPodPolicy", "All"),),
            ),
            Step(0.383, "succeed"),
        ),
    ),
    "a PodGroup loses its owner with the job while a request to create a pod is on its way": Schedule(
        seed=267490950,
        gang="volcano",
        steps=(
            create("XGBoostJob", "a", (("Master", 1),)),
            *(Step(seconds, "succeed") for seconds in (0.03, 0.03, 0.153, 0.179, 0.232, 0.233, 0.252, 0.624, 1.664)),
            Step(1.001, "slow responses", how=2.0),
            Step(1.349, "delete job", how="Orphan"),
        ),
    ),
    "a request of a partitioned operator is delivered when it is killed, long after it timed out": Schedule(
        seed=3594946471,
        steps=(
            create("XGBoostJob", "a", (("Master", 1),), policy=(("activeDeadlineSeconds", 0),)),
            *(Step(0.0, "fail", how=1) for _ in range(14)),
            Step(0.01, "fail", how=1),
            Step(0.0, "partition", how=1.0),
            *(Step(seconds, "fail", how=1) for seconds in (3.0, 12.408, 14.892, 20.0, 69.984)),
            Step(0.0, "kill", 1, how=0.0),
        ),
    ),
    "the status says half a minute after its last restart that a container crashes again and again": Schedule(
        seed=0,
        operators=2,
        steps=(
            create("PyTorchJob", "a", (("Master", 1),)),
            *(Step(0.0, "restart container", how=1) for _ in range(5)),
            Step(29.701, "kill", how=0.0),
            *(Step(0.0, "restart container", how=1) for _ in range(3)),
        ),
    ),
    "a queued job is over although a finalizer holds its pod, which never had a node": Schedule(
        seed=714339667,
        gang="volcano",
        steps=(
            create(
                "XGBoostJob",
                "a",
                (("Master", 1),),
                policy=(("cleanPodPolicy", "All"), ("ttlSecondsAfterFinished", 0), ("activeDeadlineSeconds", 5)),
                annotations=(TRACKED, QUEUED),
            ),
        ),
    ),
    "a queued job is over although a pod runs whose labels were removed": Schedule(
        seed=1,
        steps=(
            create("XGBoostJob", "a", (("Master", 1),), policy=(("activeDeadlineSeconds", 0),), annotations=(QUEUED,)),
            Step(0.027, "remove metadata", how="labels"),
            Step(0.044, "succeed"),
        ),
    ),
    "the clock is set back between the announced and the real end of a queued job": Schedule(
        seed=0,
        gang="volcano",
        steps=(
            create("PyTorchJob", "a", (("Master", 1),), policy=(("activeDeadlineSeconds", 2),), annotations=(QUEUED,)),
            Step(0.0, "step clock", how=-600.0),
            Step(2.0, "kill", 1, how=0.0),
        ),
    ),
    "the answer about a pod without its labels is late, and so is the retry": Schedule(
        seed=0,
        steps=(
            create("PaddleJob", "a", (("Worker", 1),)),
            Step(0.232, "remove metadata", how="labels"),
            Step(0.03, "outage", how=0.5),
            Step(0.115, "outage", how=0.5),
            Step(0.0, "slow responses", how=9.0),
            Step(1.304, "succeed"),
        ),
    ),
    "a new job that is scaled down at the moment of its creation may get the pods that it was created with": Schedule(
        seed=0,
        steps=(
            create("PyTorchJob", "a", (("Worker", 2),), policy=AT_ONCE),
            Step(1.112, "create", how=JobRequest("PyTorchJob", "a", (("Worker", 2),), policy=AT_ONCE)),
            Step(0.0, "set field", how=("pytorchReplicaSpecs.Worker.replicas", 1)),
        ),
    ),
}


@pytest.mark.parametrize("claim", FALSE_ALARMS)
def test_a_correct_schedule_is_not_reported(claim):
    assert run(FALSE_ALARMS[claim]).violations == ()

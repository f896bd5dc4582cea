"""Schedules that have found a bug in the operator, each shrunk: none may break a promise again."""

from __future__ import annotations

from typing import Any

import pytest

from simulation.runner import run
from simulation.schedule import ON_DISRUPTION, SCOPE, SERVICES, TRACK_RESULTS, JobRequest, Schedule, Step

TRACKED, FAIL_ON_DISRUPTION = (TRACK_RESULTS, "true"), (ON_DISRUPTION, "Fail")
SERVICE_OF_JOB = (SERVICES, "Job")
ALONE, WITH_ROLE, TOGETHER = ((SCOPE, scope) for scope in ("Replica", "Role", "Job"))


def create(*job: Any, **fields: Any) -> Step:
    """Return the step in which a user creates this job."""
    return Step(0.0, "create", how=JobRequest(*job, **fields))


BUGS = {
    "a pod that has ended since an old list was read is not cleaned up as one that runs": Schedule(
        seed=0,
        steps=(
            create("TFJob", "a", (("Chief", 1), ("Worker", 1)), policy=(("cleanPodPolicy", "Running"),)),
            Step(5.0, "succeed", 1),
            Step(0.0, "succeed"),
            Step(0.4, "stale list", how=2),
            Step(0.0, "delay watches", how=30.0),
            Step(0.0, "kill", how=0.0),
            Step(3.0, "no quota"),
        ),
    ),
    "a job that is recreated under its name while the old one is reconciled gets its pods": Schedule(
        seed=766,
        steps=(
            create("MPIJob", "a", (("Launcher", 1), ("Worker", 2)), "ExitCode"),
            Step(0.005, "create", how=JobRequest("XGBoostJob", "b", (("Master", 1),), "OnFailure")),
            Step(0.0, "recreate job", how="Background"),
        ),
    ),
    "a recreated job is not lost when the watch reports the deletion of the old one late": Schedule(
        seed=5179,
        finish=True,
        steps=(
            create("XGBoostJob", "a", (("Master", 1),), "Always"),
            Step(1.0, "delay watches", how=30.0),
            Step(0.247, "reject", how="NodeShutdown"),
            Step(0.0, "recreate job", how="Orphan"),
        ),
    ),
    "a new leader makes no pods of a job that only an old list still has": Schedule(
        seed=1721649340,
        gang="volcano",
        steps=(
            create("PyTorchJob", "a", (("Worker", 2),)),
            Step(0.013, "recreate job", 7, "Background"),
            Step(0.0, "stale list", 3, 10),
            Step(0.0, "stale list", 7, 5),
            Step(1.914, "set field", 3, ("pytorchReplicaSpecs.Worker.replicas", 3)),
            Step(0.029, "kill", 5, 0.5),
            Step(1.228, "disrupt", 4, "TerminationByKubelet"),
        ),
    ),
    "replicas that restart together wait for one that was scaled down and is not gone": Schedule(
        seed=2128,
        steps=(
            create("PaddleJob", "a", (("Worker", 3),), "OnFailure"),
            Step(1.0, "succeed"),
            Step(0.0, "set field", how=("paddleReplicaSpecs.Worker.replicas", 2)),
            Step(0.0, "reject", how="NodeShutdown"),
        ),
    ),
    "a job whose names others have taken says so, and writes little while it waits": Schedule(
        seed=153,
        steps=(
            create("MPIJob", "a", (("Launcher", 1), ("Worker", 2))),
            Step(1.0, "recreate job", how="Orphan"),
            Step(60.0, "delete foreign objects"),
        ),
    ),
    "a back-off does not last an hour when the next process has a clock that is an hour behind": Schedule(
        seed=462,
        steps=(
            create("PaddleJob", "b", (("Worker", 1),), "ExitCode"),
            Step(1.0, "step clock", how=-3600.0),
            Step(0.0, "oom", how=137),
            Step(1.0, "kill", how=3.0),
        ),
    ),
    "the finalizer of a pod without owner and labels is removed": Schedule(
        seed=2592,
        steps=(
            create("PaddleJob", "a", (("Worker", 2),), annotations=(TRACKED,)),
            Step(1.0, "remove metadata", 1, how="owner"),
            Step(1.0, "remove metadata", 1, how="labels"),
            Step(60.0, "delete foreign objects"),
        ),
    ),
    "a worker that serves is not completed by a forged status": Schedule(
        seed=11271,
        steps=(
            create("MPIJob", "a", (("Launcher", 1), ("Worker", 1)), "Always"),
            Step(0.0, "forge status", how="done"),
        ),
    ),
    "a success is stored before the finalizer of its deleted pod is removed": Schedule(
        seed=9644,
        steps=(
            create("JAXJob", "a", (("Worker", 2),), "ExitCode", annotations=(ALONE, TRACKED)),
            Step(5.0, "succeed", 5),
            Step(0.0, "delete pod", 5),
        ),
    ),
    "an evicted pod that fails is evicted, though only its last status was seen": Schedule(
        seed=2,
        steps=(
            create("PaddleJob", "a", (("Master", 1),), "Always", annotations=(TRACKED,)),
            Step(30.8, "partition", how=12.0),
            Step(0.0, "disrupt", how="EvictionByEvictionAPI"),
            Step(0.0, "fail", how=255),
            Step(0.0, "compact"),
        ),
    ),
    "a new leader removes the finalizers of pods whose job is gone": Schedule(
        seed=122742,
        operators=2,
        steps=(
            create("TFJob", "a", (("Worker", 2),), "OnFailure", annotations=(TRACKED,)),
            Step(31.0, "kill", how=0.0),
            Step(0.0, "delete job", how="Background"),
        ),
    ),
    "a failure that the server no longer shows is not counted again when a late event reports it": Schedule(
        seed=306471,
        operators=2,
        steps=(
            create("TFJob", "a", (("Chief", 1), ("PS", 3)), "ExitCode", spec=(("enableDynamicWorker", False),)),
            Step(1.0, "delay watches", how=30.0),
            Step(0.0, "oom", how=137),
            Step(0.0, "delete lease"),
            Step(0.0, "restart container", how=137),
        ),
    ),
    "a replica that was never created is not missed when a job is scaled down": Schedule(
        seed=536688,
        steps=(
            create(
                "PyTorchJob",
                "a",
                (("Worker", 2),),
                policy=(("activeDeadlineSeconds", 30),),
                annotations=(FAIL_ON_DISRUPTION, TRACKED),
            ),
            Step(1.0, "recreate job", how="Orphan"),
            Step(0.0, "delete pod", 3),
            Step(5.0, "set field", how=("pytorchReplicaSpecs.Worker.replicas", 1)),
        ),
    ),
    "a job that is changed while its deletion is on its way stays": Schedule(
        seed=708902,
        steps=(
            create(
                "TFJob",
                "b",
                (("Worker", 1),),
                "OnFailure",
                policy=(("ttlSecondsAfterFinished", 1),),
                annotations=(TOGETHER, TRACKED),
            ),
            Step(1.0, "slow responses", how=2.0),
            Step(0.0, "succeed"),
            Step(2.965, "oom", how=137),
            Step(0.0, "forge status", how="wipe"),
        ),
    ),
    "the Event about a failed pod is written though one response is lost": Schedule(
        seed=879996,
        steps=(
            create(
                "TFJob",
                "a",
                (("Worker", 2),),
                "ExitCode",
                policy=(("cleanPodPolicy", "Running"),),
                spec=(("enableDynamicWorker", True),),
                annotations=(TRACKED,),
            ),
            Step(1.0, "fail", how=137),
            Step(0.025, "fail write", how=(4, 504, "before")),
            Step(0.0, "fail", how=1),
            Step(1.0, "delay watches", how=8.0),
        ),
    ),
    "a pod that has lost its label is not waited for once it is deleted": Schedule(
        seed=111,
        steps=(
            create("JAXJob", "a", roles=(("Worker", 1),), restart="ExitCode"),
            Step(5.0, "oom", how=137),
            Step(0.0, "remove metadata", how="labels"),
            Step(1.0, "no quota"),
        ),
    ),
    "a failure whose pod has lost its labels and got them back counts once": Schedule(
        seed=3796,
        steps=(
            create("XGBoostJob", "a", (("Master", 1),), "ExitCode", annotations=(TRACKED,)),
            Step(1.0, "remove metadata", how="labels"),
            Step(0.0, "oom", how=137),
        ),
    ),
    "replicas that restart together are not restarted for one that has only lost its labels": Schedule(
        seed=9721,
        steps=(
            create("TFJob", "a", (("Worker", 3),), "OnFailure", annotations=(TOGETHER,)),
            Step(3.0, "remove metadata", how="labels"),
            Step(1.0, "delete foreign objects"),
        ),
    ),
    "a pod that has its label again is not searched for": Schedule(
        seed=40201,
        steps=(
            create("MPIJob", "a", (("Launcher", 1),), "Always", annotations=(TRACKED,)),
            Step(1.0, "remove metadata", how="labels"),
            Step(1.0, "compact"),
        ),
    ),
    "replicas that restart wait for a pod that lost its label when another failed": Schedule(
        seed=228205,
        steps=(
            create("JAXJob", "a", (("Worker", 2),), "Always", annotations=(FAIL_ON_DISRUPTION,)),
            Step(1.0, "stale list", how=13),
            Step(0.0, "remove metadata", how="labels"),
            Step(0.0, "oom", 1, how=137),
            Step(5.0, "outage", how=120.0),
        ),
    ),
    "a job that waits for a pod without its label, and whose other names are taken, says so once": Schedule(
        seed=489277,
        steps=(
            Step(0.0, "image error", how="ImagePullBackOff"),
            create(
                "PaddleJob",
                "b",
                (("Master", 1),),
                "OnFailure",
                policy=(("backoffLimit", 30),),
                annotations=(FAIL_ON_DISRUPTION,),
            ),
            Step(1.0, "recreate job", how="Orphan"),
            Step(0.0, "disrupt", how="PreemptionByScheduler"),
            Step(5.0, "remove metadata", how="labels"),
            Step(5.0, "pause watch"),
        ),
    ),
    "a pod without its label is not waited for once another has its name": Schedule(
        seed=617121,
        steps=(
            create(
                "PyTorchJob",
                "a",
                (("Master", 1),),
                "ExitCode",
                policy=(("ttlSecondsAfterFinished", 2), ("backoffLimit", 0)),
                annotations=(FAIL_ON_DISRUPTION,),
            ),
            Step(1.0, "remove metadata", how="labels"),
            Step(1.0, "not ready"),
            Step(0.0, "delete foreign objects"),
            Step(0.0, "create foreign pod"),
        ),
    ),
    "a second pod that loses its label is waited for as well": Schedule(
        seed=726418,
        steps=(
            create("XGBoostJob", "a", (("Master", 1), ("Worker", 3))),
            Step(5.0, "fail", 5, how=139),
            Step(0.0, "remove metadata", how="labels"),
            Step(0.0, "delete pod"),
            Step(0.0, "remove metadata", 2, how="labels"),
            Step(5.0, "no quota"),
        ),
    ),
    "a job whose status is removed while the counts of its end are stored gets a new status": Schedule(
        seed=0,
        steps=(
            create("XGBoostJob", "a", (("Master", 1),), policy=(("activeDeadlineSeconds", 0),)),
            Step(0.933, "forge status", how="wipe"),
        ),
    ),
    "a pod that has failed is deleted only once the status says that its new job is suspended": Schedule(
        seed=0,
        steps=(
            create("XGBoostJob", "a", (("Master", 1),)),
            Step(0.008, "reject", how="OutOfcpu"),
            Step(0.0, "set field", how=("runPolicy.suspend", True)),
        ),
    ),
    "a pod that has succeeded before its new job was suspended is deleted only once the status says so": Schedule(
        seed=0,
        operators=2,
        gang="volcano",
        steps=(
            create("XGBoostJob", "a", (("Master", 1), ("Worker", 1))),
            Step(0.03, "succeed"),
            Step(0.0, "kill at write", how=(3, "before")),
            Step(0.4, "succeed"),
            Step(0.0, "succeed"),
            Step(0.0, "set field", how=("runPolicy.suspend", True)),
        ),
    ),
    "a job that was refused for seconds does not wait a minute because a user has changed it": Schedule(
        seed=0,
        gang="volcano",
        steps=(
            create("TFJob", "a", (("Worker", 1),)),
            Step(0.0, "quota", how=0),
            Step(15.13, "set scope", how="Auto"),
            Step(1.023, "succeed"),
        ),
    ),
    "a job that was refused for seconds does not wait a minute because its old pods end one by one": Schedule(
        seed=2985904234,
        steps=(
            create("PyTorchJob", "a", (("Worker", 3),), annotations=(WITH_ROLE, SERVICE_OF_JOB)),
            Step(0.001, "succeed"),
            Step(0.554, "disrupt", how="PreemptionByScheduler"),
            Step(0.465, "quota", how=0),
            Step(0.0, "reject", how="OutOfcpu"),
            *(Step(seconds, "succeed") for seconds in (0.03, 0.4, 0.4, 0.555, 3.0)),
        ),
    ),
    "a job of a queue that another client fails while it ends stops its pods in time": Schedule(
        seed=0,
        steps=(
            create(
                "XGBoostJob",
                "a",
                (("Master", 1), ("Worker", 1)),
                policy=(("activeDeadlineSeconds", 1), ("backoffLimit", 0)),
                annotations=(ALONE, ("kueue.x-k8s.io/queue-name", "research")),
            ),
            Step(0.072, "succeed"),
            Step(0.4, "succeed"),
            Step(0.0, "forge status", how="verdict"),
        ),
    ),
    "the replicas of a failed job that are ready are counted as seldom as those that run": Schedule(
        seed=0,
        steps=(
            create("XGBoostJob", "a", (("Master", 1), ("Worker", 2))),
            Step(0.4, "fail", how=1),
            Step(0.816, "outage", how=0.5),
            Step(1.973, "not ready"),
            Step(0.0, "outage", how=0.5),
            Step(0.0, "forge status", how="restarts"),
            Step(0.0, "outage", how=120.0),
            Step(1.314, "slow responses", how=0.2),
            Step(67.512, "oom", 1, 137),
        ),
    ),
}


@pytest.mark.parametrize("claim", BUGS)
def test_a_schedule_that_has_found_a_bug_violates_no_invariant(claim):
    assert run(BUGS[claim]).violations == ()


@pytest.mark.parametrize("change", [("runPolicy.suspend", True), ("tfReplicaSpecs.Worker.replicas", 1)])
def test_a_job_that_was_changed_while_its_watch_was_silent_gets_no_pods_for_its_old_spec(change):
    steps = (
        Step(0.0, "quota", how=1),
        create("TFJob", "a", (("Worker", 3),), "OnFailure"),
        Step(5.0, "pause watch", 2),
        Step(0.0, "set field", how=change),
        Step(2.0, "no quota"),
        Step(20.0, "no quota"),
    )
    assert run(Schedule(seed=1, steps=steps)).violations == ()

"""What the auditor once took amiss, though nobody could have known better, or the promise does not say so."""

from __future__ import annotations

import pytest

from simulation.once import ALONE, KEEP, WITH_ROLE, create
from simulation.play import play
from simulation.schedule import Schedule, Step

AMISS = {
    "what was to go for a restart may go when another leader has ended the job since": Schedule(
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
            Step(after=1.0, what="find node"),
            Step(after=0.0, what="disrupt", which=3, how="EvictionByEvictionAPI"),
            Step(after=0.005, what="freeze", which=7, how=14.0),
            Step(after=5.0, what="no quota"),
            Step(after=0.0, what="usurp"),
            Step(after=1.0, what="find node"),
        ),
    ),
    "a pod whose owner was taken off while nothing could be heard may be deleted for a little longer": Schedule(
        seed=220089,
        steps=(
            create("JAXJob", "a", (("Worker", 2),), "OnFailure"),
            Step(after=1.0, what="outage", how=20.0),
            Step(after=0.0, what="disrupt", how="TerminationByKubelet"),
            Step(after=0.0, what="strip", which=1, how="owner"),
            Step(after=30.0, what="succeed"),
        ),
    ),
    "a job that waits for a pod without its label is not at rest until it has asked for it again": Schedule(
        seed=216679,
        steps=(
            create("MPIJob", "a", (("Launcher", 1), ("Worker", 2))),
            Step(after=5.0, what="strip", which=2, how="labels"),
            Step(after=0.0, what="disrupt", how="DeletionByPodGC"),
            Step(after=1.0, what="delete pod"),
            Step(after=1.0, what="oom", how=137),
        ),
    ),
    "a back-off is in force for as long as the clock shows by which it was stored": Schedule(
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
            Step(after=1.0, what="reject", how="NodeAffinity"),
            Step(after=1.0, what="reject", how="OutOfcpu"),
            Step(after=5.0, what="die at", how=(4, "after")),
            Step(after=0.0, what="reject", how="UnexpectedAdmissionError"),
            Step(after=0.0, what="reject", how="UnexpectedAdmissionError"),
            Step(after=0.0, what="leap", how=600.0),
            Step(after=5.0, what="reject", how="OutOfmemory"),
            Step(after=0.0, what="reject", how="UnexpectedAdmissionError"),
        ),
    ),
    "who succeeded and had the seat taken away may be made anew with the seat": Schedule(
        seed=575228,
        steps=(
            create(
                "JAXJob",
                "a",
                (("Worker", 2),),
                "OnFailure",
                annotations=(WITH_ROLE, KEEP),
            ),
            Step(after=1.0, what="succeed"),
            Step(after=0.0, what="set", how=("jaxReplicaSpecs.Worker.replicas", 0)),
            Step(after=1.0, what="set", how=("jaxReplicaSpecs.Worker.replicas", 4)),
        ),
    ),
}


@pytest.mark.parametrize("claim", AMISS)
def test_what_nobody_could_know_is_not_taken_amiss(claim):
    assert play(AMISS[claim]).violations == ()

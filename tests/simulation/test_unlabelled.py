"""What schedules have found of pods that lost the label by which they are known; `test_found` has the rest."""

from __future__ import annotations

import pytest

from simulation.once import FATAL, KEEP, TOGETHER, create
from simulation.play import play
from simulation.schedule import Schedule, Step

UNLABELLED = {
    "a pod that has lost its label is not waited for once it is deleted": Schedule(
        seed=111,
        steps=(
            create("JAXJob", "a", roles=(("Worker", 1),), restart="ExitCode"),
            Step(after=5.0, what="oom", how=137),
            Step(after=0.0, what="strip", how="labels"),
            Step(after=1.0, what="no quota"),
        ),
    ),
    "a failure whose pod has lost its labels and got them back counts once": Schedule(
        seed=3796,
        steps=(
            create("XGBoostJob", "a", (("Master", 1),), "ExitCode", annotations=(KEEP,)),
            Step(after=1.0, what="strip", how="labels"),
            Step(after=0.0, what="oom", how=137),
        ),
    ),
    "members that restart together are not restarted for one that has only lost its labels": Schedule(
        seed=9721,
        steps=(
            create("TFJob", "a", (("Worker", 3),), "OnFailure", annotations=(TOGETHER,)),
            Step(after=3.0, what="strip", how="labels"),
            Step(after=1.0, what="leave"),
        ),
    ),
    "once a pod has got its label back nobody looks for it any more": Schedule(
        seed=40201,
        steps=(
            create("MPIJob", "a", (("Launcher", 1),), "Always", annotations=(KEEP,)),
            Step(after=1.0, what="strip", how="labels"),
            Step(after=1.0, what="expire"),
        ),
    ),
    "who lost its label in the moment in which another failed is waited for by those who restart": Schedule(
        seed=228205,
        steps=(
            create("JAXJob", "a", (("Worker", 2),), "Always", annotations=(FATAL,)),
            Step(after=1.0, what="old list", how=13),
            Step(after=0.0, what="strip", how="labels"),
            Step(after=0.0, what="oom", which=1, how=137),
            Step(after=5.0, what="outage", how=120.0),
        ),
    ),
    "a job that waits for a pod without its label, and whose other names are taken, says so once": Schedule(
        seed=489277,
        steps=(
            Step(after=0.0, what="stall", how="ImagePullBackOff"),
            create(
                "PaddleJob",
                "b",
                (("Master", 1),),
                "OnFailure",
                policy=(("backoffLimit", 30),),
                annotations=(FATAL,),
            ),
            Step(after=1.0, what="begin anew", how="Orphan"),
            Step(after=0.0, what="disrupt", how="PreemptionByScheduler"),
            Step(after=5.0, what="strip", how="labels"),
            Step(after=5.0, what="hold"),
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
                annotations=(FATAL,),
            ),
            Step(after=1.0, what="strip", how="labels"),
            Step(after=1.0, what="unready"),
            Step(after=0.0, what="leave"),
            Step(after=0.0, what="impersonate"),
        ),
    ),
    "who loses its label while another without one is waited for is waited for as well": Schedule(
        seed=726418,
        steps=(
            create("XGBoostJob", "a", (("Master", 1), ("Worker", 3))),
            Step(after=5.0, what="fail", which=5, how=139),
            Step(after=0.0, what="strip", how="labels"),
            Step(after=0.0, what="delete pod"),
            Step(after=0.0, what="strip", which=2, how="labels"),
            Step(after=5.0, what="no quota"),
        ),
    ),
}


@pytest.mark.parametrize("claim", UNLABELLED)
def test_who_lost_its_label_is_neither_missed_nor_waited_for_in_vain(claim):
    assert play(UNLABELLED[claim]).violations == ()

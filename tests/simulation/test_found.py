"""What schedules have found, each as small as it would go: what went wrong in them once, and is not to again."""

from __future__ import annotations

import pytest

from simulation.once import ALONE, FATAL, KEEP, TOGETHER, create
from simulation.orders import Order
from simulation.play import play
from simulation.schedule import Schedule, Step

FOUND = {
    "a pod that has ended since an old list was read is not cleaned up as one that runs": Schedule(
        seed=0,
        steps=(
            create("TFJob", "a", (("Chief", 1), ("Worker", 1)), policy=(("cleanPodPolicy", "Running"),)),
            Step(after=5.0, what="succeed", which=1),
            Step(after=0.0, what="succeed"),
            Step(after=0.4, what="old list", how=2),
            Step(after=0.0, what="delay", how=30.0),
            Step(after=0.0, what="kill", how=0.0),
            Step(after=3.0, what="no quota"),
        ),
    ),
    "a job made anew under its name, while its predecessor is looked at, gets its pods": Schedule(
        seed=766,
        steps=(
            create("MPIJob", "a", (("Launcher", 1), ("Worker", 2)), "ExitCode"),
            Step(after=0.005, what="create", how=Order("XGBoostJob", "b", (("Master", 1),), "OnFailure")),
            Step(after=0.0, what="begin anew", how="Background"),
        ),
    ),
    "a job is not lost when the watch tells of its predecessor's end after the job itself was read": Schedule(
        seed=5179,
        finish=True,
        steps=(
            create("XGBoostJob", "a", (("Master", 1),), "Always"),
            Step(after=1.0, what="delay", how=30.0),
            Step(after=0.247, what="reject", how="NodeShutdown"),
            Step(after=0.0, what="begin anew", how="Orphan"),
        ),
    ),
    "members that restart together wait for one that was scaled away and has not left": Schedule(
        seed=2128,
        steps=(
            create("PaddleJob", "a", (("Worker", 3),), "OnFailure"),
            Step(after=1.0, what="succeed"),
            Step(after=0.0, what="set", how=("paddleReplicaSpecs.Worker.replicas", 2)),
            Step(after=0.0, what="reject", how="NodeShutdown"),
        ),
    ),
    "a job whose names others have taken says so, and writes little while it waits": Schedule(
        seed=153,
        steps=(
            create("MPIJob", "a", (("Launcher", 1), ("Worker", 2))),
            Step(after=1.0, what="begin anew", how="Orphan"),
            Step(after=60.0, what="leave"),
        ),
    ),
    "the clock of the next life is an hour behind, and a back-off of a second lasts no hour": Schedule(
        seed=462,
        steps=(
            create("PaddleJob", "b", (("Worker", 1),), "ExitCode"),
            Step(after=1.0, what="leap", how=-3600.0),
            Step(after=0.0, what="oom", how=137),
            Step(after=1.0, what="kill", how=3.0),
        ),
    ),
    "a pod that is held for its result lets go of what nobody owns or can see any more": Schedule(
        seed=2592,
        steps=(
            create("PaddleJob", "a", (("Worker", 2),), annotations=(KEEP,)),
            Step(after=1.0, what="strip", which=1, how="owner"),
            Step(after=1.0, what="strip", which=1, how="labels"),
            Step(after=60.0, what="leave"),
        ),
    ),
    "who serves is never done, whatever somebody has written into the status": Schedule(
        seed=11271,
        steps=(
            create("MPIJob", "a", (("Launcher", 1), ("Worker", 1)), "Always"),
            Step(after=0.0, what="forge", how="done"),
        ),
    ),
    "a success is noted before its pod is let go, though somebody deletes it at the same moment": Schedule(
        seed=9644,
        steps=(
            create("JAXJob", "a", (("Worker", 2),), "ExitCode", annotations=(ALONE, KEEP)),
            Step(after=5.0, what="succeed", which=5),
            Step(after=0.0, what="delete pod", which=5),
        ),
    ),
    "who was evicted and then failed was evicted, though the kubelet's last word alone is heard": Schedule(
        seed=2,
        steps=(
            create("PaddleJob", "a", (("Master", 1),), "Always", annotations=(KEEP,)),
            Step(after=30.8, what="partition", how=12.0),
            Step(after=0.0, what="disrupt", how="EvictionByEvictionAPI"),
            Step(after=0.0, what="fail", how=255),
            Step(after=0.0, what="expire"),
        ),
    ),
    "who takes over lets go of pods that are held for a job that is gone": Schedule(
        seed=122742,
        operators=2,
        steps=(
            create("TFJob", "a", (("Worker", 2),), "OnFailure", annotations=(KEEP,)),
            Step(after=31.0, what="kill", how=0.0),
            Step(after=0.0, what="delete", how="Background"),
        ),
    ),
    "a failure that the server no longer shows is not counted again when a late watch tells of it": Schedule(
        seed=306471,
        operators=2,
        steps=(
            create("TFJob", "a", (("Chief", 1), ("PS", 3)), "ExitCode", spec=(("enableDynamicWorker", False),)),
            Step(after=1.0, what="delay", how=30.0),
            Step(after=0.0, what="oom", how=137),
            Step(after=0.0, what="usurp"),
            Step(after=0.0, what="restart in place", how=137),
        ),
    ),
    "nobody is lost who was never made, when a job shrinks that had counted another": Schedule(
        seed=536688,
        steps=(
            create(
                "PyTorchJob",
                "a",
                (("Worker", 2),),
                policy=(("activeDeadlineSeconds", 30),),
                annotations=(FATAL, KEEP),
            ),
            Step(after=1.0, what="begin anew", how="Orphan"),
            Step(after=0.0, what="delete pod", which=3),
            Step(after=5.0, what="set", how=("pytorchReplicaSpecs.Worker.replicas", 1)),
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
                annotations=(TOGETHER, KEEP),
            ),
            Step(after=1.0, what="slow", how=2.0),
            Step(after=0.0, what="succeed"),
            Step(after=2.965, what="oom", how=137),
            Step(after=0.0, what="forge", how="wipe"),
        ),
    ),
    "why a pod failed is told though one answer is lost": Schedule(
        seed=879996,
        steps=(
            create(
                "TFJob",
                "a",
                (("Worker", 2),),
                "ExitCode",
                policy=(("cleanPodPolicy", "Running"),),
                spec=(("enableDynamicWorker", True),),
                annotations=(KEEP,),
            ),
            Step(after=1.0, what="fail", how=137),
            Step(after=0.025, what="answer", how=(4, 504, "before")),
            Step(after=0.0, what="fail", how=1),
            Step(after=1.0, what="delay", how=8.0),
        ),
    ),
}


@pytest.mark.parametrize("claim", FOUND)
def test_what_was_found_stays_mended(claim):
    assert play(FOUND[claim]).violations == ()

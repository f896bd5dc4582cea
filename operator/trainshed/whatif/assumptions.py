"""What is assumed of a job, of its nodes and of its program, and what one run of it may come to."""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec

#: How many times the time of a run without a failure another one may take before it is given up.
PATIENCE = 20
#: A part of a training in which so many failures are to be expected is never done.
MOST_AGAIN = 50.0


class Assumptions(msgspec.Struct, frozen=True):
    """Times are in seconds; `checkpoint_every` is infinite for a program that saves nothing.

    `run_time` is the training alone, as if nothing ever failed and nothing was saved. Each of `nodes` fails once in
    `mtbf` on average; of the failures `program_failures` is the share in which the node stays and the program of a
    replica on it exits with `exit_code`. `start_up` is the time from the creation of pods to the training, and
    `restart_cost` the same after a failure, from the time at which new pods are created. A node that was lost has a
    successor after `replace_node`; until then one of the `spare_nodes` takes its place.
    """

    run_time: float
    nodes: int
    mtbf: float
    checkpoint_every: float = math.inf
    checkpoint_cost: float = 0
    start_up: float = 0
    restart_cost: float = 0
    program_failures: float = 0
    exit_code: int = 1
    replace_node: float = 0
    spare_nodes: int = 0

    @property
    def mean_time_between(self) -> float:
        """The mean time between two failures of the whole job."""
        return self.mtbf / self.nodes

    @property
    def undisturbed(self) -> float:
        """The time of a run without a failure."""
        saves = max(0, math.ceil(self.run_time / self.checkpoint_every) - 1)
        return self.start_up + self.run_time + saves * self.checkpoint_cost

    @property
    def expected_failures(self) -> float:
        """The failures during a run that nothing delays."""
        return self.undisturbed / self.mean_time_between

    @property
    def likely_failures(self) -> float:
        """The same with what is done again after each, which may be all, and with the starts that fail.

        No run goes on beyond PATIENCE.
        """
        at_once = min(self.checkpoint_every, self.run_time) + self.restart_cost
        again = math.expm1(min(at_once / self.mean_time_between, MOST_AGAIN)) * self.mean_time_between / at_once
        starts = math.expm1(min(self.start_up / self.mean_time_between, MOST_AGAIN))
        found = self.expected_failures * min(again, PATIENCE) + starts
        return min(found, self.expected_failures * PATIENCE)


class RunEnding(StrEnum):
    """How a run ends. `UNFINISHED` is one that would go on for many times as long as it should."""

    SUCCEEDED = "Succeeded"
    BACKOFF_LIMIT = "BackoffLimit"
    DEADLINE = "Deadline"
    STARTUP_DEADLINE = "StartupDeadline"
    NOT_RETRIED = "NotRetried"
    UNFINISHED = "Unfinished"


class Use(StrEnum):
    """What the pods of a job do with their time, and so with the devices that they hold."""

    TRAINING = "training"
    LOST_WORK = "lostWork"
    CHECKPOINTS = "checkpoints"
    RESTARTS = "restarts"
    START = "start"


class RunResult(msgspec.Struct, frozen=True):
    """One run: how it ended and after how many seconds, what failed, and the pods' seconds by use and resource.

    `used` has one amount for each resource of the job, the last for the pods themselves.
    """

    ending: RunEnding
    seconds: float
    node_failures: int
    program_failures: int
    counted_restarts: int
    used: dict[Use, tuple[float, ...]]

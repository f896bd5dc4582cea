"""Where the time of a job goes, to the second: what its pods show, however often the operator has reconciled."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders import FRAMEWORKS, T0, a_job, a_pod, at, plan_for, run_policy, seen
from support.replace import replace
from trainshed.api import status_codec
from trainshed.api.job import Job
from trainshed.api.objects import Container, Pod, TerminatedState
from trainshed.api.signs import Signs, Steps
from trainshed.api.status import Status
from trainshed.api.time_spent import NOTHING, JobPhase, TimeSpent
from trainshed.plan import phases, plan
from trainshed.plan.facts import Facts
from trainshed.plan.phases import with_time_spent

#: What a job needs for a start of two pods: the second is the later one at each step.
STARTS = {"scheduled": (4, 9), "started": (20, 40)}


class Life:
    """What happens to a pod, in seconds from the creation of the job; `init` is the end of its init container."""

    def __init__(self, replica: str, created: float, started: float | None = None, **more) -> None:
        self.replica, self.created, self.started = replica, created, started
        self.scheduled, self.init = more.get("scheduled", created), more.get("init")
        self.ended, self.code, self.attempt = more.get("ended"), more.get("code", 0), more.get("attempt", 0)
        self.deleted, self.gone, self.disrupted = more.get("deleted"), more.get("gone"), more.get("disrupted")
        self.again, self.policy = more.get("again"), more.get("policy", "Never")
        self.ready, self.beside = more.get("ready", started), more.get("beside", False)

    def pod(self, job: Job, now: float) -> Pod | None:
        """The pod as it is shown now; None if it does not exist."""
        if now < self.created or (self.gone is not None and now >= self.gone):
            return None
        known = {
            "created": at(self.created),
            "attempt": self.attempt,
            "job": job.name,
            "uid": f"{self.replica}-{self.created}",
        }
        if now >= self.scheduled:
            known |= {"scheduled": at(self.scheduled), "node": "node-a"}
        if self.deleted is not None and now >= self.deleted:
            known |= {"deleting": True, "deletion_timestamp": at(self.deleted + 30), "grace": 30}
        if self.disrupted is not None and now >= self.disrupted:
            known |= {"disruption": "EvictionByEvictionAPI", "disrupted": at(self.disrupted)}
        phase, containers = self._containers(FRAMEWORKS[job.kind].container.name, now)
        if any(one.ready for one in containers) and not self.beside:
            known |= {"ready": True, "became_ready": at(self.ready if now >= self.ready else self.started)}
        return a_pod(self.replica, phase, containers=containers, **known)

    def _containers(self, name: str, now: float) -> tuple[str, tuple[Container, ...]]:
        if now < self.scheduled:
            return "Pending", ()
        init = ()
        if self.init is not None:
            done = {"exit_code": 0, "finished": at(self.init)} if now >= self.init else {}
            init = (Container("init", init=True, started=at(self.scheduled), **done),)
        if self.started is None or now < self.started:
            return "Pending", (*init, Container(name, waiting=True, reason="ContainerCreating"))
        if self.ended is None or now < self.ended:
            ready = now >= self.ready or self.again is not None
            return "Running", (*init, Container(name, started=at(self.started), ready=ready))
        end = TerminatedState(self.code, at(self.started), at(self.ended), "Error")
        if self.policy != "Never":
            if now < self.again:
                return "Running", (
                    *init,
                    Container(name, waiting=True, reason="CrashLoopBackOff", restarts=1, before=end),
                )
            return "Running", (
                *init,
                Container(name, started=at(self.again), restarts=1, before=end, ready=now >= self.ready),
            )
        over = Container(name, exit_code=self.code, started=at(self.started), finished=at(self.ended), reason="Error")
        return ("Failed" if self.code else "Succeeded"), (*init, over)


def played(job: Job, lives: list[Life], times: list[float], changes: dict[float, Job] | None = None) -> TimeSpent:
    """Return what the status says once the operator has reconciled at these times, until it has nothing to store."""
    status = Status()
    for now in sorted(times):
        for since, changed in (changes or {}).items():
            job = changed if now >= since else job
        pods = [pod for life in lives if (pod := life.pod(job, now))]
        for _ in range(4):
            after = plan_for(job, *pods, status=status, now=at(now + 0.4)).status
            if status_codec.same_status(status, after):
                break
            status = status_codec.parse_status({"status": status_codec.status_document(after)})
    return status.time_spent


def pair(**fields) -> Job:
    return a_job("PyTorchJob", **{"master": 1, "worker": 1, "restart": "ExitCode", "created": T0} | fields)


def start(begin: float = 0, attempt: int = 0, **ends) -> list[Life]:
    """The start of two pods in 40 s: 9 until both are scheduled, 6 until both init containers have ended."""
    known = {"attempt": attempt} | ends.pop("both", {})
    master, worker = ({"init": begin + end, "scheduled": begin + now} | known for end, now in ((12, 4), (15, 9)))
    return [
        Life("master-0", begin + 2, begin + 20, **master | ends.pop("master", {})),
        Life("worker-0", begin + 3, begin + 40, **worker | ends.pop("worker", {})),
    ]


STARTED = {"Scheduling": 9, "Init": 6, "ImagePull": 25}
SUSPENDED, QUEUED = {"policy": run_policy(suspend=True)}, {"queued": True}
FAILS = {"both": {"gone": 105}, "worker": {"ended": 100, "code": 137, "gone": 105}}
IN_PLACE = {"master": {"ended": 200}, "worker": {"ended": 100, "code": 1, "again": 115, "policy": "OnFailure"}}
PROBED = {"template": {"spec": {"containers": [{"name": "pytorch", "readinessProbe": {"exec": {}}}]}}}
SMALLER = [*start(master={"ended": 200}), Life("worker-1", 3, 20, gone=110, deleted=85)]
#: What happens to a job, when the operator has to reconcile, and where its time is at the last of these moments.
TABLE = {
    "it succeeds": (pair(), start(master={"ended": 100}), [0, 100], {}, STARTED | {"Running": 60}),
    "it runs still": (pair(), start(), [0, 3, 10, 70], {}, STARTED | {"Running": 30}),
    "images are pulled": (pair(), start(), [0, 31], {}, STARTED | {"ImagePull": 16}),
    "a worker has succeeded before the master": (
        *(pair(), start(master={"ended": 100}, worker={"ended": 60})),
        *([0, 60, 100], {}, STARTED | {"Running": 60}),
    ),
    "a worker fails, and all run again": (
        *(pair(), [*start(**FAILS), *start(110, 1, master={"ended": 200})]),
        *([0, 102, 200], {}, STARTED | {"Running": 60 + 50, "Restart": 50}),
    ),
    "a pod is evicted, and runs for its grace period": (
        pair(),
        [*start(both={"gone": 130}, worker={"deleted": 100, "disrupted": 100, "gone": 130}), *start(140, 1)],
        *([0, 101, 200], {}, STARTED | {"Running": 60 + 20, "Restart": 80}),
    ),
    "a pod is deleted, which is seen once it has ended": (
        pair(),
        [*start(both={"gone": 130}, worker={"deleted": 100, "ended": 110, "code": 143, "gone": 130}), *start(140, 1)],
        *([0, 112, 200], {}, STARTED | {"Running": 60 + 20, "Restart": 80}),
    ),
    "a pod fails while others start": (
        pair(),
        [*start(both={"gone": 35}, master={"ended": 30, "code": 137, "gone": 35}), *start(60, 1)],
        *([0, 31, 120], {}, {"Scheduling": 9, "Init": 6, "ImagePull": 15, "Restart": 70, "Running": 20}),
    ),
    "it fails for good": (
        pair(restart="Never"),
        start(worker={"ended": 100, "code": 1}),
        *([0, 103], {}, STARTED | {"Running": 60, "Teardown": 3}),
    ),
    "it fails for good before all run again": (
        pair(),
        [*start(**FAILS), *start(110, 1, master={"ended": 140, "code": 1})],
        *([0, 102, 143], {}, STARTED | {"Running": 60, "Restart": 40, "Teardown": 3}),
    ),
    "its deadline is over while a container is started again": (
        pair(restart="OnFailure", policy=run_policy(deadline=110)),
        start(**IN_PLACE),
        *([0, 112], {}, STARTED | {"Running": 60, "Restart": 12}),
    ),
    "a container is started again in its pod": (
        pair(restart="OnFailure"),
        start(**IN_PLACE),
        *([0, 200], {}, STARTED | {"Running": 60 + 85, "Restart": 15}),
    ),
    "its pods are ready later": (
        *(pair(**PROBED), start(master={"ready": 50, "ended": 100}, worker={"ready": 45})),
        *([0, 60, 100], {}, STARTED | {"ProgramStartup": 10, "Running": 50}),
    ),
    "one of its pods is not ready yet": (
        *(pair(**PROBED), start(master={"ready": 45}, worker={"ready": 90})),
        *([0, 70], {}, STARTED | {"ProgramStartup": 30}),
    ),
    "it fails before it is ready, and starts again": (
        pair(**PROBED),
        [
            *start(both={"gone": 55}, master={"ready": 90}, worker={"ready": 90, "ended": 50, "code": 137}),
            *start(60, 1, both={"ready": 120}, master={"ended": 150, "ready": 130}),
        ],
        *([0, 51, 140, 150], {}, STARTED | {"ProgramStartup": 10 + 30, "Restart": 50, "Running": 20}),
    ),
    "a container fails that was ready, and is started again in its pod": (
        pair(restart="OnFailure", **PROBED),
        start(
            master={"ready": 50},
            worker={"ready": 130, "ended": 100, "code": 1, "again": 115, "policy": "OnFailure"},
        ),
        *([0, 60, 101, 160], {}, STARTED | {"ProgramStartup": 10 + 15, "Running": 50 + 30, "Restart": 15}),
    ),
    "a container beside a ready one is not ready": (
        *(pair(**PROBED), start(master={"ready": 50, "beside": True})),
        *([0, 45, 50, 70], {}, STARTED | {"ProgramStartup": 10, "Running": 20}),
    ),
    "its workers are held back until the master is ready": (
        a_job("XGBoostJob", master=1, worker=1, created=T0, **PROBED),
        [Life("master-0", 1, 30, scheduled=5, ready=34), Life("worker-0", 35, 41, scheduled=36)],
        *([0, 30, 35, 60], {}, {"Scheduling": 5 + 2, "ImagePull": 25 + 5, "ProgramStartup": 4, "Running": 19}),
    ),
    "it waits in a queue": (
        *(pair(**SUSPENDED, **QUEUED), start(60, master={"ended": 160}), [0, 60, 160]),
        *({60: pair(**QUEUED)}, STARTED | {"Queued": 60, "Running": 60}),
    ),
    "it is suspended, and resumed": (
        pair(),
        [*start(both={"deleted": 100, "gone": 112}), *start(150, 1)],
        [0, 70, 100, 112, 150, 200],
        {100: pair(**SUSPENDED), 150: pair()},
        {phase: 2 * seconds for phase, seconds in STARTED.items()}
        | {"Running": 60 + 10, "Teardown": 12, "Suspended": 38},
    ),
    "it is created suspended": (pair(**SUSPENDED), [], [0, 30], {30: pair()}, {"Suspended": 30}),
    "it is scaled down": (
        *(pair(worker=2, restart="OnFailure", options=None, scope="Replica"), SMALLER, [0, 60, 85, 200]),
        *({85: pair(restart="OnFailure", scope="Replica")}, STARTED | {"Running": 160}),
    ),
    "a worker is added": (
        pair(restart="OnFailure", scope="Replica"),
        [*start(master={"ended": 200}), Life("worker-1", 100, 130, scheduled=110)],
        [0, 60, 99, 200],
        {99: pair(worker=2, restart="OnFailure", scope="Replica")},
        {"Scheduling": 19, "Init": 6, "ImagePull": 45, "Running": 60 + 70},
    ),
    "pods of one time get their nodes, and run, one after the other": (
        a_job("PyTorchJob", worker=3, created=T0),
        [Life(f"worker-{at}", 1, run, scheduled=node) for at, node, run in ((0, 5, 30), (1, 5, 40), (2, 20, 30))],
        *([0, 35, 100], {}, {"Scheduling": 20, "ImagePull": 20, "Running": 60}),
    ),
    "workers are held back until the master is ready": (
        a_job("XGBoostJob", master=1, worker=1, created=T0),
        [Life("master-0", 1, 30, scheduled=5, ended=100), Life("worker-0", 35, 41, scheduled=36)],
        *([0, 30, 35, 100], {}, {"Scheduling": 5 + 6, "ImagePull": 25 + 5, "Running": 59}),
    ),
}


def totals(spent: TimeSpent, now: float) -> dict[str, int]:
    """Return the seconds of each phase, with the present one up to now."""
    return {str(phase): seconds for phase, seconds in spent.until(at(now)).seconds.items() if seconds}


@pytest.mark.parametrize("name", TABLE)
def test_each_second_of_a_job_is_in_one_phase(name):
    job, lives, times, changes, expected = TABLE[name]
    spent = played(job, lives, times, changes)
    assert totals(spent, times[-1]) == expected
    assert sum(expected.values()) == times[-1]
    ran = expected.get("Running", 0) + expected.get("ProgramStartup", 0)
    waited = sum(expected.get(phase, 0) for phase in ("Queued", "Suspended", "Teardown"))
    share = spent.until(at(times[-1])).availability
    assert share == (ran * 100 // (times[-1] - waited) if times[-1] > waited else None)


def deciding(job: Job, lives: list[Life], times: list[float], changes: dict[float, Job]) -> float:
    """Return from when on a reconcile ends the job, and so matters, or else the time of the last one."""
    is_over = played(job, lives, times, changes).phase is None
    ends = (life.ended for life in lives if life.ended and is_over)
    return min(job.policy.deadline or times[-1], max(ends, default=times[-1]), times[-1])


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(TABLE)), st.lists(st.integers(0, 200), max_size=12))
def test_it_does_not_matter_when_else_the_operator_reconciles_or_another_one_takes_over(name, more):
    job, lives, times, changes, expected = TABLE[name]
    more = [time for time in more if time < deciding(job, lives, times, changes)]
    assert totals(played(job, lives, [*times, *more], changes), times[-1]) == expected


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("name", TABLE)
def test_it_does_not_matter_what_is_left_out_to_save_time(name, number, monkeypatch):
    job, lives, times, changes, _ = TABLE[name]
    times = [*times, *range(number, int(times[-1]), 4)]
    spent = played(job, lives, times, changes)
    with monkeypatch.context() as patch:  # the other replicas are looked at although one has no node
        patch.setattr(phases, "_is_being_scheduled", lambda _: False)
        assert played(job, lives, times, changes) == spent
    monkeypatch.setattr(phases, "usual_course", lambda *_, **__: None)  # pods that only ran are not followed together
    assert played(job, lives, times, changes) == spent
    monkeypatch.setattr(phases, "traits", lambda *_: object())  # no two of them are alike
    assert played(job, lives, times, changes) == spent


def test_pods_that_succeed_at_different_times_are_followed_together_until_the_last_has():
    job = a_job("PyTorchJob", master=1, worker=3, created=T0)
    lives = [Life(f"worker-{index}", 1, 10 + index, scheduled=5, ended=40 + 10 * index) for index in range(3)]
    spent = played(job, [*lives, Life("master-0", 1, 20, scheduled=5, ended=90)], [0, 30, 100])
    assert totals(spent, 100) == {"Scheduling": 5, "ImagePull": 15, "Running": 70, "Teardown": 10}


def test_the_pods_of_a_job_that_is_being_created_are_not_followed(monkeypatch):
    job = a_job("PyTorchJob", master=1, worker=5, created=T0)
    monkeypatch.setattr(phases, "_stages", lambda *_: pytest.fail("the stages of all pods were asked for"))
    there = [a_pod(f"worker-{index}", "Running", scheduled=at(1), created=at(0)) for index in range(4)]
    assert stored(job, *there, status=Status(), now=5).phase is JobPhase.SCHEDULING
    waiting = [a_pod(replica, "Pending", containers=(), created=at(0)) for replica in ("master-0", "worker-4")]
    assert stored(job, *there, *waiting, status=Status(), now=5).phase is JobPhase.SCHEDULING


def stored(job: Job, *pods: Pod, status: Status, now: float) -> TimeSpent:
    """Return the time of a job whose status is stored next."""
    facts = Facts(seen(job, *pods, status=status, now=at(now)))
    return with_time_spent(facts, plan_for(job, *pods, status=status, now=at(now)).status).time_spent


def test_no_time_is_counted_twice_or_negative_if_clocks_differ():
    ahead, behind = Life("master-0", 1, 30, scheduled=5), Life("worker-0", 1, 3, scheduled=5)
    pods = [replace(life.pod(pair(), 50), created=at(1)) for life in (ahead, behind)]
    assert stored(pair(), *[life.pod(pair(), 2) for life in (ahead, behind)], status=Status(), now=2).since == T0
    early = stored(pair(), *pods, status=Status(), now=20)
    assert early == TimeSpent({"Scheduling": 5}, JobPhase.IMAGE_PULL, at(5)), "the start is in the future"
    status = replace(plan_for(pair(), *pods, now=at(20)).status, time_spent=replace(early, since=at(25)))
    assert stored(pair(), *pods, status=status, now=22) == status.time_spent, (
        "the last time was stored by another clock"
    )
    assert totals(stored(pair(), *pods, status=status, now=40), 40) == {"Scheduling": 5, "ImagePull": 5, "Running": 10}
    forged = replace(status, time_spent=replace(early, since=at(10**6)))
    assert stored(pair(), *pods, status=forged, now=40).since == at(40)


@pytest.mark.parametrize(
    ("before", "job", "phase", "since"),
    [
        ({"attempts": {"Worker": 1, "Master": 1}}, pair(), "Running", 90),
        ({}, pair(created=None), "Running", 90),
        ({}, pair(), "Running", 40),
    ],
)
def test_a_job_that_nothing_has_counted_begins_now_if_it_has_a_history(before, job, phase, since):
    pods = [replace(life.pod(pair(), 90), attempt=bool(before)) for life in start()]
    status = replace(plan_for(job, *pods, now=at(60)).status, time_spent=NOTHING, **before)
    found = stored(job, *pods, status=status, now=90)
    assert (found.phase, found.since) == (phase, at(since))
    over = plan_for(job, *[life.pod(job, 90) for life in start(master={"ended": 70})], now=at(90)).status
    assert stored(job, status=replace(over, time_spent=NOTHING), now=99).phase is None
    suspended = replace(plan_for(pair(**SUSPENDED)).status, time_spent=NOTHING)
    assert stored(pair(**SUSPENDED), status=suspended, now=99).phase is JobPhase.SUSPENDED


def test_a_container_that_is_started_again_and_again_has_run_before_its_last_two_runs():
    job = pair(restart="OnFailure")
    lives = [Life("master-0", 1, 5), Life("worker-0", 1, 5)]
    status = plan_for(job, *[life.pod(job, 10) for life in lives], now=at(10)).status
    status = replace(status, time_spent=stored(job, *[life.pod(job, 10) for life in lives], status=Status(), now=10))
    looping = Life("worker-0", 1, 70, ended=75, code=1, again=90, policy="OnFailure")
    spent = stored(job, lives[0].pod(job, 95), looping.pod(job, 95), status=status, now=95)
    assert totals(spent, 95) == {"ImagePull": 4, "Scheduling": 1, "Running": 70 + 5, "Restart": 15}


#: What is known of a job whose steps came each second from 40 s on, by the moment when the operator reconciles.
HANGS = {
    "it moves again": ({100: 70, 130: 129}, {}, {"Running": 30 + 11, "Stalled": 59}, 140),
    "it hangs still": ({100: 70}, {}, {"Running": 30, "Stalled": 70}, 140),
    "it pauses for less than a deadline": ({90: 70, 95: 94}, {}, {"Running": 60}, 100),
    "another operator takes over that knows no step": (
        {100: 70, 120: None, 130: 129},
        {},
        {"Running": 41, "Stalled": 59},
        140,
    ),
    "it is restarted": (
        {100: 70, 115: 70},
        {"restarts_when_hung": True},
        {"Running": 30, "Stalled": 30, "Restart": 40},
        140,
    ),
    "a replica fails in the hang": (
        {100: 70, 121: 70},
        {"fails": 120},
        {"Running": 30, "Stalled": 50, "Restart": 20},
        140,
    ),
    "it succeeds in the hang": ({100: 70, 120: 70}, {"ends": 120}, {"Running": 30, "Stalled": 50}, 120),
    "it is suspended in the hang": (
        {100: 70, 120: 70},
        {"suspended": 120},
        {"Running": 30, "Stalled": 50, "Teardown": 20},
        140,
    ),
    "nothing is known of its steps": ({100: None}, {}, {"Running": 100}, 140),
}


@pytest.mark.parametrize("more", [[], [60, 100, 101, 112, 119, 130, 131]], ids=["few reconciles", "more reconciles"])
@pytest.mark.parametrize("name", HANGS)
def test_the_time_without_progress_of_a_job_that_is_stalled_is_no_training(name, more):
    steps, known, expected, end = HANGS[name]
    known = dict(known)
    fails, ends, suspended = (known.pop(word, None) for word in ("fails", "ends", "suspended"))
    job, status = pair(hang_deadline=30, **known), Status()
    lives = start(master={"ended": ends}, worker={"ended": fails, "code": 137})
    for now in sorted({0, 39, *steps, *(time for time in more if time <= end)}):
        advanced = steps[max((time for time in steps if time <= now), default=min(steps))]
        signs = Signs(Steps(at(advanced), 30, 1.0, 1.0)) if advanced and now >= 60 else Signs()
        changed = replace(job, policy=run_policy(suspend=True)) if suspended and now >= suspended else job
        pods = [pod for life in lives if (pod := life.pod(changed, now))]
        for _ in range(4):
            snapshot = replace(seen(changed, *pods, status=status, now=at(now + 0.4)), signs=signs)
            status = status_codec.parse_status({"status": status_codec.status_document(plan(snapshot).status)})
    assert totals(status.time_spent, end) == STARTED | expected

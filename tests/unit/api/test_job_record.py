"""The record of a job: small whatever is in the job, without values that are the user's, and read without trust."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from support.builders import FRAMEWORKS, T0, a_job, at, running
from support.replace import replace
from trainshed.api import job_record, parse, status_codec
from trainshed.api.framework import JobDefaults
from trainshed.api.job_record import (
    MAX_POINTS,
    MAX_RECORD_BYTES,
    REDUCTIONS,
    Curve,
    Ended,
    Point,
    Versions,
    decode,
    encode,
)
from trainshed.api.status import Condition, ConditionType, Failure, Restart, Status
from trainshed.api.trainer_status import TrainerStatus
from trainshed.api.training import parse_report
from trainshed.views import rows

SECRET = "hunter2-hunter2"
TEMPLATE = {
    "spec": {
        "containers": [
            {"name": "sidecar", "image": "proxy:1"},
            {
                "name": "tensorflow",
                "image": "registry.example.com/train:7",
                "command": ["python", "train.py"],
                "args": ["--password", SECRET],
                "env": [{"name": "PASSWORD", "value": SECRET}, {"name": "TOKEN", "valueFrom": {"secretKeyRef": {}}}],
                "resources": {"limits": {"nvidia.com/gpu": 8}, "requests": {"memory": "16Gi"}},
            },
        ]
    }
}
HUGE = 'x"\\\u0001<é\U0001f600' * 200_000


def failed(**fields: object) -> Status:
    """The status of a job that has failed."""
    failure = Failure("mnist-worker-1", "Application", "Error", 1, "node-0", "boom", at(60), "worker-1", message="died")
    condition = Condition(ConditionType.FAILED, true=True, reason="BackoffLimit", message="m", updated=T0, changed=T0)
    known = {"conditions": (condition,), "start": T0, "completion": at(90), "failure": failure}
    return Status(**known | fields)


def ended(status: Status | None = None, **fields: object) -> Ended:
    """A job at its end."""
    job = a_job(worker=3, restart="OnFailure", template=TEMPLATE, created=T0 - timedelta(seconds=5))
    known = {"job": job, "framework": FRAMEWORKS["TFJob"], "status": status or failed()}
    return Ended(**known | fields)


def test_a_record_is_a_job_that_tables_and_the_parser_read():
    text = encode(ended(), Versions("1.2.3", "v1.36.1"))
    found = decode(text, "ml")
    cells = rows.row(found, at(120), namespaces=True, wide=True)
    assert cells[:5] == ("ml", "tfjob/mnist", "Failed", "0/3", "0")
    assert cells[-1] == "died"
    job = parse.job(found, FRAMEWORKS["TFJob"], JobDefaults())
    assert [(group.role, group.count, group.container) for group in job.groups] == [("Worker", 3, "tensorflow")]
    assert job.problems == ()
    assert status_codec.parse_status(found).failure.exit_code == 1
    assert found["record"] | {"specDigest": ""} == {
        "form": 1,
        "ended": "2026-01-01T12:01:30Z",
        "settled": True,
        "specDigest": "",
        "operator": "1.2.3",
        "kubernetes": "v1.36.1",
    }


def test_a_record_has_names_of_variables_and_no_values_commands_or_arguments():
    text = encode(ended())
    assert SECRET not in text
    assert "train.py" not in text
    first = json.loads(text)["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    assert list(first["env"]) == [{"name": "PASSWORD"}, {"name": "TOKEN"}]
    other = replace(ended().job, groups=(replace(ended().job.groups[0], template=_without_secret()),))
    assert json.loads(encode(replace(ended(), job=other)))["record"] == json.loads(text)["record"]


def _without_secret() -> dict:
    return json.loads(json.dumps(TEMPLATE).replace(SECRET, "other"))


@pytest.mark.parametrize("size", [10, 3_000, len(HUGE)])
def test_no_record_is_too_large_whatever_the_job_has(size: int):
    text = HUGE[:size]
    many = {f"{text[:40]}{number}": text for number in range(300)}
    container = {"name": text, "image": text, "env": [{"name": text}] * 300, "resources": {"limits": many}}
    template = {"spec": {"containers": [container] * 100}}
    restart = Restart(T0, 1, text, text, text, text, 1, 3, 5, 6, 7)
    failure = Failure(text, text, text, 1, text, text, T0, text, text, 3, text)
    kinds = (kind for kind in ConditionType if kind is not ConditionType.SUCCEEDED)
    conditions = tuple(Condition(kind, true=True, reason=text, message=text, updated=T0, changed=T0) for kind in kinds)
    trainer = TrainerStatus(T0, metrics=tuple((f"{text[:20]}{number}", text[:60]) for number in range(32)), step=7)
    status = failed(
        conditions=conditions,
        failure=failure,
        recent_restarts=(restart,) * 10,
        trainer=trainer,
        state=text,
        reason=text,
    )
    job = a_job(worker=3, template=template, name=text, created=T0)
    curve = Curve(text, tuple(Point(2**40 + number, 2**53, 1.2345678901234e-300) for number in range(MAX_POINTS)))
    found = encode(ended(status, job=replace(job, namespace=text, uid=text), curve=curve), Versions(text, text))
    taken = len(found.encode())
    assert taken <= MAX_RECORD_BYTES
    read = decode(found, "ml")
    assert rows.row(read, T0, namespaces=True, wide=True)[2] == "Failed"
    assert status_codec.parse_status(read).failure.exit_code == 1


def test_an_ordinary_record_keeps_everything():
    restarts = tuple(
        Restart(at(n), n, "worker-1", "node-0", "Disruption", "Evicted", 137, 3, 40, 400) for n in range(10)
    )
    curve = Curve("train_loss", tuple(Point(60 * n, 1000 * n, round(2.5 / (n + 1), 4)) for n in range(MAX_POINTS)))
    text = encode(ended(failed(recent_restarts=restarts), curve=curve))
    found = json.loads(text)
    assert (len(found["status"]["recentRestarts"]), len(found["record"]["curve"]["points"])) == (10, MAX_POINTS)
    assert len(text) < MAX_RECORD_BYTES


def test_a_curve_keeps_its_first_and_its_last_point_and_few_between():
    curve = Curve()
    for number in range(1000):
        metrics = [{"name": "lr", "value": "0.1"}, {"name": "train_loss", "value": str(1000 - number)}]
        curve = curve.then(parse_report({"step": number, "metrics": metrics}, at(number)), T0)
        assert len(curve.points) <= MAX_POINTS
    assert (curve.metric, curve.points[0].step, curve.points[-1].step) == ("train_loss", 0, 999)
    assert curve.points[-1].value == 1
    seconds = [point.seconds for point in curve.points]
    assert seconds == sorted(set(seconds))
    assert len(curve.points) > MAX_POINTS // 3


def test_the_same_report_is_one_point():
    report = parse_report({"step": 3}, at(9))
    curve = Curve().then(report, T0).then(report, T0)
    assert curve.points == (Point(9, 3),)


def test_an_earlier_record_with_more_points_gives_its_curve():
    known = encode(ended(curve=Curve("loss", (Point(1, 1, 0.5), Point(2, 2, 0.25)))))
    found = json.loads(encode(ended(curve=Curve("loss", (Point(3, 3, 0.1),))), known=known))
    assert found["record"]["curve"] == {"metric": "loss", "points": [[1, 1, 0.5], [2, 2, 0.25]]}


def test_a_job_that_was_deleted_before_its_end_says_so():
    job = a_job(worker=2, created=T0)
    text = encode(ended(running(job, now=at(10)), job=job, deleted=at(70)))
    document = json.loads(text)
    assert (job_record.was_deleted(document), job_record.was_deleted({})) == (True, False)
    record = document["record"]
    assert (record["deletedBeforeItsEnd"], record["settled"], record["ended"]) == (True, True, "2026-01-01T12:01:10Z")


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "[]", "{}", "null", "[" * 100_000, '{"kind": "TFJob"}', '{"record": {"form": 1}}'),
        json.dumps({"kind": 7, "metadata": {"name": "a"}, "record": {"form": 1}}),
        json.dumps({"kind": "TFJob", "metadata": [], "record": {"form": 1}}),
        json.dumps({"kind": "TFJob", "metadata": {"name": "a" * 70_000}, "record": {"form": 1}}),
    ],
)
def test_what_is_no_record_is_not_read(text: str):
    assert decode(text, "ml") is None


def test_a_record_cannot_claim_another_namespace():
    text = json.dumps({"kind": "TFJob", "metadata": {"name": "a", "namespace": "other"}, "record": {"form": 9}, "x": 1})
    found = decode(text, "ml")
    assert found == {
        "apiVersion": "",
        "kind": "TFJob",
        "metadata": {"name": "a", "namespace": "ml"},
        "spec": {},
        "status": {},
        "record": {"form": 9},
    }


@pytest.mark.parametrize(
    ("points", "kept"),
    [
        ([[1, 2, 3.5], [2, 3, 4]], [Point(1, 2, 3.5), Point(2, 3, 4.0)]),
        ([[1, "a", True], "x", None, [], {}, [-1, 0, 0], [5]], [Point(1), Point(5)]),
        ([[9, 1, 1], [3, 1, 1], [10, None, 1e400]], [Point(9, 1, 1.0), Point(10)]),
        ([[n, n, n] for n in range(10_000)], [Point(n, n, float(n)) for n in range(MAX_POINTS)]),
        ("points", []),
    ],
)
def test_of_the_points_of_others_those_are_kept_that_make_a_curve(points: object, kept: list[Point]):
    found = job_record.parse_curve({"metric": "lo\x1b[31mss\n", "points": points})
    assert (found.metric, list(found.points)) == ("loss", kept)


def test_all_that_can_be_left_out_of_a_record_leaves_what_a_table_shows():
    found = decode(encode(ended()), "ml")
    for reduce in REDUCTIONS:
        reduce(found)
    assert "spec" not in found
    assert rows.row(found, at(120), namespaces=False, wide=False)[:2] == ("tfjob/mnist", "Failed")


def test_a_report_without_a_number_is_no_point():
    report = TrainerStatus(updated=at(10), metrics=(("note", "fine"), ("mode", "nan")))
    assert Curve().then(report, T0) == Curve()


def test_a_job_without_a_completion_time_ended_when_its_condition_changed():
    assert ended(failed(completion=None)).time == T0


def test_how_far_a_training_is_says_nothing_of_how_good_it_is():
    report = TrainerStatus(updated=at(10), step=7, metrics=(("current_step", "7"), ("accuracy", "0.5")))
    assert Curve().then(report, T0) == Curve("accuracy", (Point(10, 7, 0.5),))

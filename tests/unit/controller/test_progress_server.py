"""Who may report the progress of a job, and what, by real HTTPS."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from trainshed.api.job import ProgressSource
from trainshed.controller.progress_server import _parsed, _unknown_keys

from .progress import ApiServer, ProgressReplica, a_reporting_job, recorded

ROOT = Path(__file__).parents[3]
REPORT = {
    "trainerStatus": {
        "progressPercentage": 42,
        "estimatedRemainingSeconds": 120,
        "metrics": [{"name": "loss", "value": "0.25"}, {"name": "current_step", "value": "42"}],
        "lastUpdatedTime": "2026-11-28T10:00:00.123456+00:00",
    }
}


@pytest.fixture
async def replica():
    server = ApiServer()
    async with ProgressReplica(server) as replica:
        replica.knows(a_reporting_job(), "worker-0")
        server.gives("good", "mnist", "worker-0")
        yield replica


def reported(replica: ProgressReplica, uid: str = "job-uid"):
    return replica.cache.training.of(uid)


async def test_a_pod_reports_for_its_job(replica):
    assert await replica.post(REPORT) == (200, REPORT)
    assert reported(replica).percentage == 42
    assert reported(replica).remaining_seconds == 120
    assert reported(replica).step == 42
    assert replica.cache.training.pod("job-uid") == "mnist-worker-0"
    assert replica.counted == {"Accepted": 1}
    assert await replica.events() == []


async def test_what_hugging_faces_trainer_sends_is_accepted(replica):
    for request in recorded():
        assert await replica.post(request["body"], headers=request["headers"]) == (200, request["body"])
    found = reported(replica)
    assert (found.percentage, found.remaining_seconds, found.epoch) == (100, 0, 1.0)
    assert dict(found.metrics)["train_loss"] == "4.170744776725769"


@pytest.mark.parametrize("body", [{}, {"trainerStatus": None}, {"trainerStatus": {}}, {"other": 1}])
async def test_an_empty_report_is_accepted_and_says_nothing(replica, body):
    assert await replica.post(body) == (200, body)
    assert reported(replica) is None


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"nonsense": 1}, "nonsense"),
        ({"trainerStatus": {"progresPercentage": 1, "bad\x1b[2J": 1}}, "progresPercentage, bad"),
        ({"a": 1, "trainerStatus": dict.fromkeys("bcdefg", 1)}, "a, b, c, d, e"),
    ],
)
async def test_keys_that_trainer_does_not_know_are_ignored_and_said_once(replica, body, named):
    assert [(await replica.post(body))[0] for _ in range(2)] == [200, 200]
    assert (replica.counted, reported(replica)) == ({"UnknownKeys": 2}, None)
    [event] = await replica.events()
    assert f"are ignored (UnknownKeys): {named}. It came from mnist-worker-0." in event


@pytest.mark.parametrize("text", [b'{"\xff": 1}', b'{"a": "\xff"}', b'{"a": 1e99999}'])
async def test_what_is_ignored_may_be_anything(replica, text):
    content, unknown = _parsed(text), _unknown_keys(text)
    assert (content, unknown in ([], ["a"])) == ({}, True)


async def test_the_client_of_the_docs_reports_steps(replica, tmp_path, monkeypatch):
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/progress.md").read_text(), re.DOTALL)
    for name, content in (("CA_CERT", replica.bundle), ("TOKEN", "good\n")):
        (tmp_path / name).write_text(content)
        monkeypatch.setenv(f"KUBEFLOW_TRAINER_SERVER_{name}", str(tmp_path / name))
    monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_URL", replica.url())
    monkeypatch.setenv("no_proxy", "localhost")
    exec(code, names := {})
    await asyncio.to_thread(names["report"], 42, 100, loss=0.5)
    found = reported(replica)
    assert (found.step, found.total_steps, found.percentage, found.metrics[-1]) == (42, 100, 42, ("loss", "0.5"))
    assert replica.counted == {"Accepted": 1}


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        (b"{", 422, "Malformed"),
        (b"\xff\xfe", 422, "Malformed"),
        (b"[" * 60_000, 422, "Malformed"),
        (b'{"a":%s%s}' % (b"[" * 30_000, b"]" * 30_000), 422, "Malformed"),
        ({"trainerStatus": []}, 422, "Malformed"),
        ({"trainerStatus": {"progressPercentage": 101}}, 422, "Malformed"),
        ({"trainerStatus": {"progressPercentage": "9"}}, 422, "Malformed"),
        ({"trainerStatus": {"estimatedRemainingSeconds": -1}}, 422, "Malformed"),
        ({"trainerStatus": {"metrics": [{"name": "a"}]}}, 422, "Malformed"),
        ({"trainerStatus": {"metrics": [{"name": "a", "value": "1"}] * 257}}, 422, "Malformed"),
        ({"trainerStatus": {"metrics": [{"name": "a", "value": "1" * 65_536}]}}, 413, "TooLarge"),
    ],
)
async def test_what_trainer_refuses_is_refused_and_said_once(replica, body, code, reason):
    for _ in range(2):
        found, status = await replica.post(body)
        assert (found, status["kind"], status["status"], status["code"]) == (code, "Status", "Failure", code)
        assert status["message"].startswith(f"{reason}: ")
    assert reported(replica) is None
    assert replica.counted == {reason: 2}
    [event] = await replica.events()
    assert event.startswith(f"A report of the training's progress was refused ({reason}): ")


async def test_long_and_hostile_texts_are_cut_and_made_printable(replica):
    metrics = [{"name": "loss\x1b[2J\n" + "n" * 500, "value": "0.5\u202e" + "9" * 500}]
    code, _ = await replica.post({"trainerStatus": {"metrics": metrics}})
    assert code == 200
    [(name, value)] = reported(replica).metrics
    assert name.isprintable()
    assert value.isprintable()
    assert max(len(name), len(value)) <= 64


async def test_a_job_reports_five_times_at_once_then_once_a_second(replica):
    codes = [(await replica.post(REPORT))[0] for _ in range(6)]
    assert codes == [200] * 5 + [429]
    assert await replica.events() == []


@pytest.mark.parametrize(
    ("token", "fields", "reason"),
    [
        ("", {}, "BadToken"),
        ("bad", {}, "BadToken"),
        ("good", {"user": "system:serviceaccount:other:default"}, "OtherJob"),
        ("good", {"uid": "worker-1-uid"}, "OtherJob"),
        ("good", {"name": "mnist-worker-7"}, "OtherJob"),
        ("good", {"user": "jane"}, "BadToken"),
        ("good", {"name": ""}, "BadToken"),
        ("good", {"uid": ""}, "BadToken"),
    ],
)
async def test_only_the_token_of_a_pod_of_the_job_counts(replica, token, fields, reason):
    replica.server.gives("good", "mnist", "worker-0", **fields)
    code, status = await replica.post(REPORT, token)
    assert (code, status["reason"]) == (403, "Forbidden")
    assert replica.counted == {reason: 1}
    assert reported(replica) is None


async def test_a_token_that_is_refused_is_said_in_an_event_of_the_job(replica):
    for _ in range(3):
        await replica.post(REPORT, "bad")
    [event] = await replica.events()
    assert "(BadToken): the token is not valid, or not for this job. It came from 127.0.0.1." in event


async def test_a_pod_does_not_report_for_another_job(replica):
    replica.knows(a_reporting_job(name="other", uid="other-uid"))
    replica.server.pods["good", "trainer.kubeflow.org/v1alpha1/namespaces/ml/trainjobs/other/status"] = {
        "name": "mnist-worker-0",
        "uid": "worker-0-uid",
    }
    assert (await replica.post(REPORT, url=replica.url("other")))[0] == 403
    assert reported(replica, "other-uid") is None
    [event] = await replica.events()
    assert "pod mnist-worker-0 does not belong to job other" in event


async def test_an_unknown_job_is_not_found(replica):
    replica.server.gives("good", "gone", "worker-0")
    assert (await replica.post(REPORT, url=replica.url("gone")))[0] == 404
    assert replica.counted == {"UnknownJob": 1}


async def test_a_job_that_does_not_ask_is_refused(replica):
    replica.knows(a_reporting_job(progress=ProgressSource.LOGS, version="2"))
    assert (await replica.post(REPORT))[0] == 403
    assert replica.counted == {"NotAskedFor": 1}


async def test_of_two_jobs_of_one_name_that_of_the_pod_reports(replica):
    replica.knows(a_reporting_job("TFJob", uid="tf-uid"), "ps-0")
    replica.server.gives("tf", "mnist", "ps-0")
    assert (await replica.post(REPORT, "tf"))[0] == 200
    assert reported(replica, "tf-uid").percentage == 42
    assert reported(replica) is None


async def test_a_token_is_reviewed_once_and_a_flood_of_others_is_not(replica):
    for _ in range(3):
        await replica.post(REPORT)
    assert replica.server.reviews == 1
    codes = [(await replica.post(REPORT, f"bad-{n}"))[0] for n in range(20)]
    assert codes[:5] == [403] * 5
    assert codes[-1] == 429
    assert replica.server.reviews < 15
    assert (await replica.post(REPORT))[0] == 200, "the flood does not concern tokens that are known"


async def test_while_the_api_server_does_not_answer_a_report_is_not_refused_for_good(replica):
    replica.server.answers = False
    assert (await replica.post(REPORT))[0] == 429
    replica.server.answers = True
    assert (await replica.post(REPORT))[0] == 200

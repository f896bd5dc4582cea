"""A log that a kubelet serves to a real API server becomes the progress in the status of its job."""

from __future__ import annotations

from support import UserClient
from support.fake_kubelet import NODE, FakeKubelet
from support.jobs import pytorchjob
from support.log_server import LogServer
from support.operator import Operators
from support.user_client import eventually
from testbed.control_plane import ControlPlane


def said(_pod: str, number: int) -> str:
    """A bar whose states end with carriage returns only, cut in the middle."""
    head = "" if number else "training:  1%|#   | "
    return f"{head}{number + 10}/100 [00:01<00:09, 1.0it/s, loss=0.{number}5]\rtraining:  1%|#   | "


def test_the_log_of_the_master_is_in_the_status(
    second_server: ControlPlane, second_user: UserClient, operators: Operators
) -> None:
    flags = ("--no-leader-elect", f"--namespace={second_user.namespace}")
    operators.begin(second_server.kubeconfig, *flags, "--progress-logs")
    job = pytorchjob("a", Master=1, Worker=1)
    with LogServer.start(second_user, NODE, said, 0.5) as server, FakeKubelet(second_user) as kubelet:
        second_user.create(job | {"metadata": {"name": "a", "annotations": {"trainshed.dev/progress": "Logs"}}})
        eventually(lambda: "trainerStatus" in second_user.job("PyTorchJob", "a").get("status", {}), 20)
        status = second_user.job("PyTorchJob", "a")["status"]
        assert status["trainerStatus"]["totalSteps"] == 100
        assert [found["name"] for found in status["trainerStatus"]["metrics"]] == ["loss"]
        assert status["progress"].startswith(f"{status['trainerStatus']['progressPercentage']}%")
        assert (server.open, server.most_open) == (1, 1), "the worker's log is not read"
        kubelet.end("a-master-0", 0)
        eventually(lambda: second_user.state("PyTorchJob", "a") == "Succeeded")
        assert second_user.job("PyTorchJob", "a")["status"]["trainerStatus"]["step"] >= 10

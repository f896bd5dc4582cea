"""Jobs in a queue of Kueue: small ones of each kind, and the user who creates them."""

from __future__ import annotations

from .jobs import KINDS, job, pod_spec
from .kueue import QUEUE_LABEL
from .planes import V2BETA1
from .user_client import GROUP, UserClient

#: The replicas of a job of two pods of each kind.
ROLES = {
    "TFJob": {"Worker": 2},
    "PyTorchJob": {"Master": 1, "Worker": 1},
    "MPIJob": {"Launcher": 1, "Worker": 1},
    "XGBoostJob": {"Master": 1, "Worker": 1},
    "PaddleJob": {"Worker": 2},
    "JAXJob": {"Worker": 2},
}


class KueueUser(UserClient):
    """A user of the kinds that Kueue manages: its MPIJobs are v2beta1's."""

    def _jobs(self, kind: str) -> str:
        group = V2BETA1 if kind == "MPIJob" else GROUP
        return f"{group}/namespaces/{self.namespace}/{kind.lower()}s"


def queued(body: dict, **labels: str) -> dict:
    """The job in the user's queue, with one CPU for each pod."""
    body["metadata"]["labels"] = {QUEUE_LABEL: "research", **labels}
    body["apiVersion"] = "kubeflow.org/v2beta1" if body["kind"] == "MPIJob" else body["apiVersion"]
    for role in body["spec"][KINDS[body["kind"]].field]:
        pod_spec(body, role)["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return body


def pair(kind: str, name: str) -> dict:
    """A queued job of two pods; when it is over those that still run are deleted."""
    return queued(job(kind, name, policy={"cleanPodPolicy": "Running"}, **ROLES[kind]))


def over(user: UserClient, bodies: list[dict]) -> bool:
    """Return whether all of these jobs have succeeded."""
    return all(user.state(body["kind"], body["metadata"]["name"]) == "Succeeded" for body in bodies)

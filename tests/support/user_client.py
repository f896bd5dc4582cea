"""A user's hand on a real API server: plain requests, independent of the operator's own client."""

from __future__ import annotations

import base64
import json
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Self

import urllib3
import yaml

from .jobs import KINDS

GROUP = "/apis/kubeflow.org/v1"
MERGE = "application/merge-patch+json"


class Refused(Exception):
    """The API server said no: `code` is the HTTP status, the text its message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Hand:
    """Requests with the credentials of a kubeconfig, in one namespace; `group` is where the jobs are."""

    def __init__(self, kubeconfig: Path, namespace: str, group: str = GROUP) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        self.namespace = namespace
        self._group = group
        self._server = cluster["server"]
        self._http = urllib3.PoolManager(
            maxsize=64,
            retries=False,
            timeout=30,
            ca_certs=_file(cluster, "certificate-authority"),
            cert_file=_file(user, "client-certificate"),
            key_file=_file(user, "client-key"),
        )

    @classmethod
    def somewhere(cls, kubeconfig: Path, group: str = GROUP, *, named: str = "t") -> Self:
        """One in a new namespace of its own, be it the second of this name: a test may be tried again."""
        hand = cls(kubeconfig, f"{named}-{uuid.uuid4().hex[:8]}", group)
        hand.make_namespace()
        return hand

    def call(self, verb: str, path: str, body: object = None, kind: str = "application/json") -> dict:
        """One request; the parsed answer, or `Refused`."""
        data = None if body is None else json.dumps(body)
        answer = self._http.request(verb, self._server + path, body=data, headers={"Content-Type": kind})
        try:
            found = json.loads(answer.data)
        except ValueError:
            found = {"message": answer.data.decode(errors="replace")}
        if answer.status >= 400:
            raise Refused(answer.status, found.get("message", ""))
        return found

    def make_namespace(self) -> None:
        """Create the hand's own namespace."""
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        eventually(lambda: self._or_none(f"{self._core('serviceaccounts')}/default"), 30)

    def create(self, job: dict) -> dict:
        """Create a job of any kind."""
        return self.call("POST", self._jobs(job["kind"]), job)

    def job(self, kind: str, name: str) -> dict | None:
        """A job as it is now, or None."""
        return self._or_none(f"{self._jobs(kind)}/{name}")

    def jobs(self, kind: str) -> list[dict]:
        """All jobs of a kind."""
        return self.call("GET", self._jobs(kind))["items"]

    def patch_job(self, kind: str, name: str, patch: dict) -> dict:
        """Merge a patch into a job."""
        return self.call("PATCH", f"{self._jobs(kind)}/{name}", patch, MERGE)

    def delete_job(self, kind: str, name: str) -> None:
        """Delete a job."""
        self.call("DELETE", f"{self._jobs(kind)}/{name}")

    def delete_jobs(self) -> None:
        """Delete all jobs of all kinds."""
        for kind in KINDS:
            self.call("DELETE", self._jobs(kind))

    def core(self, plural: str) -> list[dict]:
        """All objects of a core kind, such as `pods`."""
        return self.call("GET", self._core(plural))["items"]

    def pods(self, job: str = "") -> list[dict]:
        """The pods, or those of one job by its label, in the order of their names."""
        label = f"?labelSelector=training.kubeflow.org/job-name={job}" if job else ""
        return sorted(self.call("GET", self._core("pods") + label)["items"], key=lambda pod: pod["metadata"]["name"])

    def pod(self, name: str) -> dict | None:
        """A pod, or None."""
        return self._or_none(f"{self._core('pods')}/{name}")

    def make(self, plural: str, body: dict) -> dict:
        """Create a core object."""
        return self.call("POST", self._core(plural), body)

    def delete(self, plural: str, name: str, grace: int | None = None) -> None:
        """Delete a core object."""
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        self.call("DELETE", f"{self._core(plural)}/{name}", options)

    def set_pod_status(self, name: str, status: dict) -> None:
        """What a kubelet does: say how a pod is."""
        self.call("PATCH", f"{self._core('pods')}/{name}/status", {"status": status}, MERGE)

    def bind(self, name: str, node: str) -> None:
        """What a scheduler does: give a pod its node."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.call("POST", f"{self._core('pods')}/{name}/binding", body)

    def conditions(self, kind: str, name: str) -> dict[str, dict]:
        """The conditions of a job by their type; none while the job or its status is missing."""
        found = (self.job(kind, name) or {}).get("status", {}).get("conditions", [])
        return {condition["type"]: condition for condition in found}

    def state(self, kind: str, name: str) -> str:
        """What `kubectl get` prints as STATE."""
        return (self.job(kind, name) or {}).get("status", {}).get("state", "")

    def events(self, job: str) -> list[tuple[str, str, str]]:
        """Type, reason and message of the events of a job, oldest first."""
        found = [event for event in self.core("events") if event["involvedObject"]["name"] == job]
        found.sort(key=lambda event: event["firstTimestamp"] or event["metadata"]["creationTimestamp"])
        return [(event["type"], event["reason"], event["message"]) for event in found]

    def holder(self) -> str:
        """Who holds the operator's Lease, if it is in this namespace, or nothing."""
        lease = self._or_none(f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/trainshed")
        return (lease or {"spec": {}})["spec"].get("holderIdentity") or ""

    def path(self, kind: str, name: str, subresource: str = "") -> str:
        """Where a job is, or its `status`, or its `scale`."""
        return "/".join(part for part in (self._jobs(kind), name, subresource) if part)

    def _jobs(self, kind: str) -> str:
        return f"{self._group}/namespaces/{self.namespace}/{kind.lower()}s"

    def _core(self, plural: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}"

    def _or_none(self, path: str) -> dict | None:
        try:
            return self.call("GET", path)
        except Refused as refused:
            if refused.code == 404:
                return None
            raise


def eventually(question: Callable[[], object], within: float = 10, every: float = 0.05) -> object:
    """The first true answer; fails with the last one once the time is up."""
    end = time.monotonic() + within
    answer = question()
    while not answer and time.monotonic() < end:
        time.sleep(every)
        answer = question()
    assert answer, f"not within {within} s; the last answer was {answer!r}"
    return answer


def always(question: Callable[[], object], during: float = 1, every: float = 0.1) -> None:
    """The answer is true, and stays so for a while; for what must not happen."""
    end = time.monotonic() + during
    while time.monotonic() < end:
        answer = question()
        assert answer, f"not any more: {answer!r}"
        time.sleep(every)


def _named(items: list[dict], name: str) -> dict:
    return next(item for item in items if item["name"] == name)


def _file(holder: dict, key: str) -> str | None:
    if key in holder:
        return holder[key]
    if f"{key}-data" not in holder:
        return None
    with tempfile.NamedTemporaryFile("wb", prefix="trainshed-", suffix=".pem", delete=False) as file:
        file.write(base64.b64decode(holder[f"{key}-data"]))
    return file.name

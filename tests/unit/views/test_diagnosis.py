"""What `trainshed doctor` says about each state of an installation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from trainshed.api.job import Document
from trainshed.client import AdmissionDenied, Invalid, Unavailable
from trainshed.crd import definition
from trainshed.frameworks import FRAMEWORKS
from trainshed.views import diagnosis

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def lease(renewed: str = "2026-01-01T11:59:58Z", holder: str = "pod-a") -> Document:
    return {"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}}


def deployed(ready: int, *, wanted: int = 2, version: str = "1.0") -> Document:
    metadata = {"namespace": "sys", "name": "op", "labels": {diagnosis.VERSION_LABEL: version}}
    return {"metadata": metadata, "spec": {"replicas": wanted}, "status": {"readyReplicas": ready}}


def named(*names: str) -> list[Document]:
    return [{"metadata": {"name": name}} for name in names]


SERVICE: Document = {"spec": {"ports": [{"port": 10443}]}}


def progress(
    left: timedelta | None, service: Document | None = SERVICE, secret: Document | None = SERVICE
) -> diagnosis.Diagnosis:
    return diagnosis.progress_endpoint("p.sys.svc:10443", service, secret, NOW + left if left else None, NOW)


OLD = "2026-01-01T11:00:00Z"
VOLCANO, REFUSED = ["scheduling.volcano.sh"], Invalid("no")
CASES = [
    (
        progress(timedelta(days=60)),
        "OK",
        "can report to p.sys.svc:10443; the certificate in Secret sys/p lasts for 60d",
    ),
    (progress(timedelta(days=27)), "WARNING", "lasts for 27d only, and the operator has not renewed it"),
    (progress(timedelta(minutes=-9)), "FAILED", "no training can report to p.sys.svc:10443: the certificate in Secret"),
    (progress(None), "FAILED", "Secret sys/p has no certificate for p.sys.svc"),
    (progress(None, secret=None), "FAILED", "there is no Secret sys/p for the certificate; the chart creates it"),
    (progress(None, service={"spec": {"ports": [{"port": 443}]}}), "FAILED", "Service sys/p has no port 10443"),
    (progress(None, service=None), "FAILED", "there is no Service sys/p; the chart creates it"),
    (diagnosis.leader("l", lease(), None, NOW), "OK", "pod-a holds the Lease l, renewed 2s ago"),
    (diagnosis.leader("l", lease(OLD), lease("2026-01-01T11:00:02Z"), NOW), "WARNING", "its clock and the one here"),
    (diagnosis.leader("l", lease(OLD), lease(OLD), NOW), "FAILED", "has not renewed the Lease l for 60m"),
    (diagnosis.leader("l", lease(holder=""), None, NOW), "FAILED", "no replica holds the Lease l"),
    (diagnosis.leader("l", None, None, NOW), "FAILED", "no replica holds the Lease l"),
    (diagnosis.kubernetes({"gitVersion": "v1.29.4"}), "FAILED", "1.30 or newer is needed"),
    (diagnosis.kubernetes({"gitVersion": "v1.30.0-eks-1"}), "OK", "Kubernetes v1.30.0-eks-1"),
    (*diagnosis.deployments([deployed(1)], "1.0", confirmed=True), "WARNING OK", "1 of 2 replicas"),
    (*diagnosis.deployments([deployed(0, wanted=0)], "1.0", confirmed=True), "FAILED OK", "0 of 0 replicas"),
    (
        *diagnosis.deployments([deployed(2, version="2.0")], "1.0", confirmed=True),
        "OK WARNING",
        "operator is 2.0",
    ),
    (*diagnosis.deployments([deployed(2, version="dev")], "0.2.dev7", confirmed=True), "OK OK", "operator is dev"),
    (*diagnosis.deployments([deployed(2, version="dev")], "1.0", confirmed=True), "OK WARNING", "same version here"),
    (*diagnosis.deployments([deployed(2)], "0.2.dev7", confirmed=True), "OK WARNING", "same version here"),
    (*diagnosis.deployments([deployed(2)], "1.0", confirmed=False), "OK WARNING OK", "no ClusterRoleBinding of"),
    (
        *diagnosis.deployments([deployed(2)] * 9, "1.0", confirmed=True),
        "OK OK " * 8 + "WARNING",
        "1 more Deployment has",
    ),
    (*diagnosis.schedulers(VOLCANO, None), "OK", "serves the API of Volcano"),
    (*diagnosis.schedulers(VOLCANO, ""), "OK", "not set for it (--gang-scheduler-name=volcano)"),
    (*diagnosis.schedulers(VOLCANO, "Volcano"), "OK", "the operator is set for it"),
    (*diagnosis.schedulers(["scheduling.x-k8s.io"], "coscheduler"), "OK", "the operator is set for it"),
    (*diagnosis.schedulers([], "kai-scheduler"), "FAILED", "does not serve scheduling.run.ai: install it"),
    (diagnosis.kueue([deployed(0), deployed(1)]), "OK", "Deployment sys/op: 1 of 2 replicas is ready"),
    (diagnosis.kueue([deployed(0)]), "FAILED", "no pod of Deployment sys/op is ready: no job with a queue starts"),
    (diagnosis.kueue([]), "WARNING", "no Deployment has its label"),
    (diagnosis.kueue(diagnosis.Unreadable("list x")), "UNKNOWN", "whether a pod of Kueue is ready: ask for the right"),
    (diagnosis.queues(named("a", "b"), "ml"), "OK", "the LocalQueues are a, b"),
    (diagnosis.queues(named("a"), "ml"), "OK", "the LocalQueue is a"),
    (diagnosis.queues([], "ml"), "OK", "a job that names one waits without end"),
    (diagnosis.monitors(named("m"), "sys"), "OK", "monitor m is set up"),
    (diagnosis.monitors(named("m", "n"), "sys"), "OK", "monitor m, monitor n are set up"),
    (diagnosis.monitors([], "sys"), "OK", "no monitor of Trainshed is in sys"),
    (*diagnosis.validation(None, REFUSED, REFUSED, "TFJob"), "OK", "one with a fault is refused"),
    (*diagnosis.validation(None, None, REFUSED, "TFJob"), "FAILED", "its CRD has no rules"),
    (*diagnosis.validation(None, REFUSED, None, "TFJob"), "OK WARNING", "the admission policy is not installed"),
    (
        *diagnosis.validation(Unavailable("hook"), REFUSED, REFUSED, "TFJob"),
        "FAILED",
        "does not answer: hook",
    ),
    (
        *diagnosis.validation(AdmissionDenied("labels"), REFUSED, REFUSED, "TFJob"),
        "WARNING",
        "as intended: labels",
    ),
    (*diagnosis.rights({"see jobs": ["list pods"]}, "ml"), "WARNING", "you may not list pods in namespace ml"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[-1])
def test_each_state_has_its_verdict_and_sentence(case):
    *found, verdicts, text = case
    assert " ".join(str(one.verdict) for one in found) == verdicts
    assert text in "\n".join(one.message for one in found)


@pytest.mark.parametrize(
    ("part", "change", "verdict", "text"),
    [
        ("spec", {"extra": {"type": "string"}}, "WARNING", "newer than this trainshed: it has 1 field"),
        ("spec", {"runPolicy": {}}, "WARNING", "is older, or of another operator: it lacks"),
        ("status", {"attempts": None}, "FAILED", "lacks 1 field or rule, such as .status.attempts"),
    ],
)
def test_a_crd_of_another_version_is_found(part, change, verdict, text):
    framework = FRAMEWORKS[0]
    installed = definition(framework)
    schema = installed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]
    for name, value in change.items():
        if value is None:
            del schema["properties"][name]
        else:
            schema["properties"][name] = value
    (found,) = diagnosis.definitions([installed], [framework])
    assert found.verdict == verdict
    assert text in found.message
    (missing,) = diagnosis.definitions([], [framework])
    assert (missing.verdict, "is not installed" in missing.message) == ("WARNING", True)

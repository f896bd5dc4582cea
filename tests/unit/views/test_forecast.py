"""What `trainshed plan` says, as a reader sees it."""

from __future__ import annotations

import pytest

from trainshed.fit.assessment import Assessment, Fit
from trainshed.fit.demands import RoleDemand
from trainshed.views.forecast import Forecast, as_document, tell

SPEC = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8", "memory": "64Gi"}}}]}
WORKERS = tuple(f"mnist-worker-{index}" for index in range(12))
SHORT = "mnist-worker-0, mnist-worker-1, …, mnist-worker-11"
ROLES = (RoleDemand("Master", ("mnist-master-0",), SPEC), RoleDemand("Worker", WORKERS, SPEC))
OBJECTS = (*(("Service", name) for name in ("mnist-master-0", *WORKERS)), ("PodGroup", "mnist"))


def forecast(*assessments: Assessment, note: str = "") -> Forecast:
    return Forecast("job.yaml, document 1", "PyTorchJob", "ml", "mnist", ROLES, OBJECTS, assessments, note)


ACCEPTED = Assessment(Fit.OK, "Admission", "the API server accepts the job")
FULL = Assessment(Fit.LACKING, "Quota", "ResourceQuota gpus lacks 8 pods: too many.")
REFUSED = Assessment(Fit.REFUSED, "Limits", "LimitRange\x1b[31m says\nno")
HIDDEN = Assessment(Fit.UNKNOWN, "Nodes", "whether nodes have room: ask for the right to list nodes")


@pytest.mark.parametrize(
    ("assessments", "headline", "verdict"),
    [
        ([ACCEPTED], "PyTorchJob ml/mnist fits.", "fits"),
        ([ACCEPTED, HIDDEN], "PyTorchJob ml/mnist fits, as far as is known.", "fits"),
        (
            [HIDDEN, FULL],
            "PyTorchJob ml/mnist does not fit: ResourceQuota gpus lacks 8 pods: too many.",
            "does not fit",
        ),
        ([FULL, REFUSED], "PyTorchJob ml/mnist would be refused: LimitRange says no.", "refused"),
    ],
)
def test_the_headline_has_the_verdict_and_the_first_reason(assessments, headline, verdict):
    found = forecast(*assessments)
    assert tell(found).headline == headline
    assert (as_document(found)["verdict"], as_document(found)["complete"]) == (verdict, HIDDEN not in assessments)


def test_a_story_has_the_parts_in_their_order():
    found = tell(forecast(HIDDEN, REFUSED, FULL, ACCEPTED, note="the job is suspended"))
    assert [(chapter.title, chapter.lines) for chapter in found.chapters] == [
        (
            "Would make",
            (
                "Master pod mnist-master-0, requesting 8 nvidia.com/gpu, 64Gi memory",
                f"12 Worker pods {SHORT}, each requesting 8 nvidia.com/gpu, 64Gi memory",
                "in total 13 pods, requesting 104 nvidia.com/gpu, 832Gi memory",
                "13 Services mnist-master-0, mnist-worker-0, …, mnist-worker-11",
                "PodGroup mnist",
                "the job is suspended",
            ),
        ),
        ("Admission", ("the API server accepts the job",)),
        ("Limits", ("refused: LimitRange says no",)),
        ("Quota", ("does not fit: ResourceQuota gpus lacks 8 pods: too many.",)),
        ("Not known", ("whether nodes have room: ask for the right to list nodes",)),
    ]


def test_machines_get_all_names_and_exact_amounts():
    found = as_document(forecast(FULL))
    assert found["roles"][1]["pods"] == list(WORKERS)
    assert found["roles"][1]["requests"] == {"nvidia.com/gpu": "8", "memory": "64Gi"}
    assert found["requests"] == {"nvidia.com/gpu": "104", "memory": "832Gi"}
    assert found["objects"][-1] == {"kind": "PodGroup", "name": "mnist"}
    assert found["assessments"] == [{"part": "Quota", "verdict": "does not fit", "message": FULL.message}]

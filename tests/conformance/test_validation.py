"""Refused jobs with their messages, and accepted jobs (TO-033 to TO-086)."""

from __future__ import annotations

import copy

import pytest
import yaml

from support import FakeKubelet, Operator, Refused, UserClient
from support.kubectl import kubectl
from support.user_client import eventually
from testbed.control_plane import ControlPlane

from .refusals import REFUSALS
from .row import differs, same
from .valid_jobs import JX, KUEUES, PD, PT, TF, TRAINING_OPERATOR, XGB, valid, with_roles

IMMUTABLE = r"spec\.runPolicy\.managedBy: Invalid value.*field is immutable"
DEPRECATED = valid(PT, elasticPolicy={"nProcPerNode": 1})


@pytest.mark.fault("K4")
@pytest.mark.parametrize(("wanted", "words"), REFUSALS)
def test_what_cannot_be_is_refused_and_says_why(user: UserClient, wanted: dict, words: tuple[str, ...]):
    with pytest.raises(Refused) as said:
        user.create(copy.deepcopy(wanted))
    assert said.value.code == 422
    assert [part for part in words if part not in said.value.problem] == [], str(said.value)
    assert user.jobs(wanted["kind"]) == []


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(valid(TF), marks=same("TO-033", "a TFJob of two workers, managed by the operator, is accepted")),
        pytest.param(with_roles(TF, Chief=2), marks=same("TO-040", "two Chiefs alone are accepted")),
        pytest.param(valid(PT), marks=same("TO-043", "an elastic PyTorchJob over c10d is accepted without a warning")),
        pytest.param(
            DEPRECATED, marks=differs("TO-049", "D29", "elasticPolicy.nProcPerNode is accepted, and not warned of")
        ),
        pytest.param(with_roles(PT, Worker=2), marks=same("TO-056", "a PyTorchJob of workers only is accepted")),
        pytest.param(valid(XGB), marks=same("TO-057", "an XGBoostJob of a Master and two Workers is accepted")),
        pytest.param(valid(PD), marks=same("TO-065", "a PaddleJob of two Workers is accepted")),
        pytest.param(valid(JX), marks=same("TO-073", "a JAXJob of two Workers is accepted")),
    ],
)
def test_what_can_be_is_accepted_without_a_warning(server: ControlPlane, user: UserClient, wanted: dict):
    result = kubectl(server, user, "create", "-f", "-", text=yaml.safe_dump(wanted))
    assert (result.returncode, result.stderr) == (0, "")
    assert user.job(wanted["kind"], "test")["spec"] == wanted["spec"] | {
        "runPolicy": wanted["spec"]["runPolicy"] | {"suspend": False}
    }


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        pytest.param(TF, None, TRAINING_OPERATOR, marks=same("TO-042", "managedBy cannot be set on an update")),
        pytest.param(
            PT,
            TRAINING_OPERATOR,
            KUEUES,
            marks=differs("TO-052", "D7", "managedBy of a PyTorchJob does not change; in v1 it does"),
        ),
    ],
)
def test_managed_by_is_immutable(user: UserClient, kind: str, before: str | None, after: str):
    created = valid(kind)
    created["spec"]["runPolicy"] = {"managedBy": before} if before else {}
    user.create(created)
    with pytest.raises(Refused, match=IMMUTABLE):
        user.patch_job(kind, "test", {"spec": {"runPolicy": {"managedBy": after}}})
    assert user.job(kind, "test")["spec"]["runPolicy"].get("managedBy") == before


@differs("TO-072", "D30", "an elastic PaddleJob without Workers runs; v1's operator fails on it at every reconcile")
def test_an_elastic_paddlejob_without_workers_takes_nobody_down(
    user: UserClient, kubelet: FakeKubelet, operator: Operator
):
    wanted = with_roles(PD, Master=1)
    wanted["spec"]["elasticPolicy"] = {}
    user.create(wanted)
    eventually(lambda: user.state(PD, "test") == "Running")
    user.create(with_roles(TF, Worker=1))
    eventually(lambda: user.state(TF, "test") == "Running")
    assert operator.alive

"""Whose request it is: one user whom the proxy names, no name of Kubernetes' own, and none without the secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from trainshed.ui.proxy_headers import SECRET_HEADER, ActingUser, ProxyHeaders, RequestRefused

USER, GROUPS = "kubeflow-userid", "kubeflow-groups"
RULES = ProxyHeaders(USER, GROUPS)


def given(*headers: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(headers))


def refusal(rules: ProxyHeaders, *headers: tuple[str, str], method: str = "GET") -> int:
    with pytest.raises(RequestRefused) as refused:
        rules.identity(method, given(*headers))
    return refused.value.status


def test_the_user_and_the_groups_are_sent_on():
    found = RULES.identity("GET", given(("Kubeflow-UserID", "alice@example.com"), (GROUPS, "ml, ops"), (GROUPS, "ml")))
    assert found.headers() == (
        ("Impersonate-User", "alice@example.com"),
        ("Impersonate-Group", "ml"),
        ("Impersonate-Group", "ops"),
    )


def test_without_a_header_for_groups_none_are_sent():
    assert ProxyHeaders(USER).identity("HEAD", given((USER, "a"), (GROUPS, "ml"))) == ActingUser("a")


@pytest.mark.parametrize("values", [[], [""]])
def test_nobody_is_refused(values: list[str]):
    assert refusal(RULES, *((USER, value) for value in values)) == 401


@pytest.mark.parametrize(
    "values",
    [
        ["alice", "bob"],
        ["system:admin"],
        ["system:serviceaccount:kube-system:default"],
        ["a" * 257],
        ["a\tb"],
        [" a"],
        ["a\u202eb"],
        ["a\udcffb"],
    ],
)
def test_who_is_no_person_is_refused(values: list[str]):
    assert refusal(RULES, *((USER, value) for value in values)) == 403


def test_groups_of_kubernetes_are_left_out():
    found = RULES.identity("GET", given((USER, "a"), (GROUPS, "system:masters,system:authenticated,ml")))
    assert found.groups == ("ml",)


@pytest.mark.parametrize("groups", [",".join(map(str, range(513))), "a\x1bb", "g" * 257])
def test_groups_that_cannot_be_sent_are_refused(groups: str):
    assert refusal(RULES, (USER, "a"), (GROUPS, groups)) == 403


def test_the_secret_decides_before_the_name_does(tmp_path: Path):
    file = tmp_path / "secret"
    rules = ProxyHeaders(USER, secret_file=file)
    assert refusal(rules, (USER, "a"), (SECRET_HEADER, "")) == 503
    file.write_text("\n")
    assert refusal(rules, (USER, "a"), (SECRET_HEADER, "")) == 503
    file.write_text("x1\n")
    assert rules.identity("GET", given((USER, "a"), (SECRET_HEADER, "x1"))) == ActingUser("a")
    for wrong in (
        [],
        [(SECRET_HEADER, "x2")],
        [(SECRET_HEADER, "x1"), (SECRET_HEADER, "x1")],
        [(SECRET_HEADER, "\udcff")],
    ):
        assert refusal(rules, (USER, "a"), *wrong) == 403
    file.write_text("x2\n")
    assert rules.identity("GET", given((USER, "a"), (SECRET_HEADER, "x2"))) == ActingUser("a")


def test_who_reads_for_all_needs_no_user():
    assert ProxyHeaders().identity("GET", given((USER, "system:admin"))) == ActingUser()
    assert ActingUser().headers() == ()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(method: str):
    assert refusal(RULES, (USER, "a"), method=method) == 405


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_scripts_of_other_sites_get_no_answer_and_links_do(site: str):
    assert refusal(RULES, (USER, "a"), ("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "cors")) == 403
    asked = given((USER, "a"), ("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", "navigate"))
    assert RULES.identity("GET", asked) == ActingUser("a")

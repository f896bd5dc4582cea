"""The generated files are up to date, and the RBAC rules are minimal."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import generate_manifests as manifests
from trainshed.frameworks import FRAMEWORKS

RIGHTS = manifests.rights()
#: The operator's rules for all kinds except MPIJob, without gang scheduling.
USUAL = [*RIGHTS["always"], *(rule for rules in RIGHTS["kinds"].values() for rule in rules)]


def allowed(rules: list[dict]) -> set[str]:
    """Return the rules as `resource: verbs`."""
    return {f"{resource}: {' '.join(rule['verbs'])}" for rule in rules for resource in rule["resources"]}


def test_a_stale_file_is_named_and_fails_the_check(tmp_path, monkeypatch):
    stale = tmp_path / "crds" / "x.yaml"
    monkeypatch.setattr(manifests, "ROOT", tmp_path)
    monkeypatch.setattr(manifests, "files", lambda: [(stale, "new")])
    result = CliRunner().invoke(manifests.main, ["--check"])
    assert (result.exit_code, result.output) == (1, "crds/x.yaml is stale: make manifests\n")
    assert CliRunner().invoke(manifests.main, []).exit_code == 0
    assert stale.read_text() == "new"


@pytest.mark.parametrize(
    "never", ["secrets", "pods/exec", "serviceaccounts", "roles", "clusterroles", "rolebindings", "*"]
)
def test_there_are_no_rights_on(never):
    assert all(never not in rule["resources"] for rule in USUAL)
    assert all("*" not in rule["verbs"] and "*" not in rule["apiGroups"] for rule in USUAL)


def test_the_rights_are_these_and_no_others():
    kinds = [framework.plural for framework in FRAMEWORKS]
    assert allowed(USUAL) == {
        *(f"{kind}: get list watch delete" for kind in kinds),
        *(f"{kind}/status: patch" for kind in kinds),
        *(f"{kind}/finalizers: update" for kind in kinds),
        "configmaps: create get list watch patch",
        "events: create patch",
        "horizontalpodautoscalers: create get list watch patch delete",
        "pods: create delete get list watch",
        "services: create delete get list watch",
    }


def test_pod_groups_need_a_gang_scheduler():
    groups = "podgroups: create get list watch patch delete"
    for scheduler, rules in RIGHTS["gang"].items():
        assert allowed(rules) == ({groups, "events: list"} if scheduler == "volcano" else {groups})


def test_v2beta1_mpijobs_need_only_to_create_secrets():
    assert allowed(RIGHTS["mpi-v2beta1"]) == {"secrets: create"}


def test_only_kept_results_need_to_patch_pods():
    assert allowed(RIGHTS["results"]) == {"pods: patch"}


def test_users_may_edit_or_view_jobs_of_all_kinds():
    read = {"get", "list", "watch"}
    for what, verbs in (("edit", read | {"create", "delete", "patch", "update"}), ("view", read)):
        jobs, statuses, scales = RIGHTS["people"][what]
        assert jobs["resources"] == [framework.plural for framework in FRAMEWORKS]
        assert set(jobs["verbs"]) == verbs
        assert statuses["verbs"] == ["get"]
        assert scales["resources"] == ["pytorchjobs/scale", "paddlejobs/scale", "jaxjobs/scale"]
        assert set(scales["verbs"]) == {"get", "patch", "update"} & verbs

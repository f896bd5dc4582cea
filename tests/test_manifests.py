"""What is generated is up to date, and asks for no rights that it should not have."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from trainshed import manifests
from trainshed.frameworks import FRAMEWORKS


def rules():
    """Every rule of every role."""
    return [rule for document in manifests.rights() for rule in document.get("rules", [])]


def test_the_generated_files_are_up_to_date():
    result = CliRunner().invoke(manifests.main, ["--check"])
    assert result.exit_code == 0, result.output


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
    assert all(never not in rule["resources"] for rule in rules())
    assert all("*" not in rule["verbs"] and "*" not in rule["apiGroups"] for rule in rules())


def test_the_rights_are_these_and_no_others():
    granted = sorted(f"{resource}: {' '.join(rule['verbs'])}" for rule in rules() for resource in rule["resources"])
    kinds = [framework.plural for framework in FRAMEWORKS]
    assert granted == sorted(
        [
            *(f"{kind}: get list watch delete" for kind in kinds),
            *(f"{kind}/status: patch" for kind in kinds),
            *(f"{kind}/finalizers: update" for kind in kinds),
            "configmaps: create get list watch patch",
            "events: create patch",
            "horizontalpodautoscalers: create get list watch patch delete",
            "leases: create get update",
            "podgroups: create get list watch patch delete",
            "podgroups: create get list watch patch delete",
            "pods: create delete get list watch",
            "services: create delete get list watch",
        ]
    )


def test_who_runs_mpijobs_of_v2beta1_may_make_secrets_and_read_none():
    documents = yaml.safe_load_all((manifests.ROOT / "profiles" / "mpi-v2beta1" / "rbac.yaml").read_text())
    granted = [rule for document in documents for rule in document.get("rules", [])]
    assert granted == [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}]


def test_the_deployment_runs_under_the_restricted_standard():
    documents = yaml.safe_load_all((manifests.ROOT / "manifests" / "deployment.yaml").read_text())
    pod = next(document for document in documents if document["kind"] == "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"requests", "limits"} <= set(container["resources"])


def test_v1s_roles_for_people_know_all_our_kinds():
    admin, edit, view = manifests.user_rights()
    (gathers,) = admin["aggregationRule"]["clusterRoleSelectors"]
    assert gathers["matchLabels"].items() <= edit["metadata"]["labels"].items()
    assert admin["rules"] == []
    looking = {"get", "list", "watch"}
    for role, verbs in ((edit, looking | {"create", "delete", "patch", "update"}), (view, looking)):
        jobs, statuses = role["rules"][:2]
        assert jobs["resources"] == [framework.plural for framework in FRAMEWORKS]
        assert set(jobs["verbs"]) == verbs
        assert statuses["verbs"] == ["get"]

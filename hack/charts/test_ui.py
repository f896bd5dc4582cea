"""The page for a team in the chart: off, reachable by the proxy alone, with few rights, and apart from the operator."""

from __future__ import annotations

import pytest

from .rendering import Document, Refused, run
from .test_chart import kinds, rendered, the
from .values import CHART

pytestmark = pytest.mark.usefixtures("helm")
PROXY = "ui.proxyFrom[0].podSelector.matchLabels.app=proxy"
ON = ("ui.enabled=true", PROXY)
NAME = "trainshed-ui"


def page(*sets: str) -> list[Document]:
    """Return the objects of the page alone."""
    found = rendered(*ON, *sets)
    return [item for item in found if item["metadata"]["name"] == NAME]


def own(kind: str, *sets: str) -> Document:
    return the(kind, page(*sets))


def granted(*sets: str) -> set[str]:
    """Return the rights of the page's service account, as `verb resource`."""
    (role,) = (item for item in page(*sets) if item["kind"] in ("Role", "ClusterRole"))
    rules = role["rules"]
    return {
        f"{verb} {what}"
        for rule in rules
        for verb in rule["verbs"]
        for what in rule.get("resources", rule.get("nonResourceURLs", ()))
    }


def test_it_is_off_unless_it_is_asked_for_and_changes_nothing_else():
    assert not [item for item in rendered() if item["metadata"]["name"] == NAME]
    assert [item for item in rendered(*ON) if item["metadata"]["name"] != NAME] == rendered()
    assert kinds(page()) == {
        *("Deployment", "Service", "ServiceAccount", "NetworkPolicy", "ClusterRole", "ClusterRoleBinding")
    }


def test_only_the_proxy_reaches_it():
    policy = own("NetworkPolicy")["spec"]
    assert policy["ingress"] == [
        {"ports": [{"port": "ui"}], "from": [{"podSelector": {"matchLabels": {"app": "proxy"}}}]},
        {"ports": [{"port": "health"}]},
    ]
    assert own("Service")["spec"]["ports"] == [{"name": "http-ui", "port": 80, "targetPort": "ui"}]


def test_the_operators_selectors_do_not_find_it():
    documents = rendered(*ON)
    labels = own("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    for item in documents:
        spec = item.get("spec", {})
        selector = spec.get("selector", spec.get("podSelector", {}))
        wanted = selector.get("matchLabels", selector).items()
        if wanted and item["kind"] in ("Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget"):
            assert (wanted <= labels) == (item["metadata"]["name"] == NAME), item["kind"]


def test_it_runs_as_the_operator_does():
    operator = next(item for item in rendered(*ON) if item["kind"] == "Deployment" and item not in page())
    shown, runs = (item["spec"]["template"]["spec"] for item in (own("Deployment"), operator))
    assert shown["securityContext"] == runs["securityContext"]
    (one,), (other,) = shown["containers"], runs["containers"]
    for part in ("image", "securityContext", "readinessProbe", "livenessProbe"):
        assert one[part] == other[part]
    assert {"requests", "limits"} <= one["resources"].keys()


def test_who_acts_as_users_may_read_as_them_and_do_nothing_else():
    found = granted()
    assert {right for right in found if not right.startswith("impersonate-on:user-info:")} == {
        *("impersonate:user-info users", "impersonate:user-info groups")
    }
    verbs = {right.partition(" ")[0].rpartition(":")[2] for right in found if right.startswith("impersonate-on:")}
    assert verbs == {"get", "list", "watch"}
    assert not [right for right in found if "secrets" in right or "exec" in right]
    assert granted("ui.constrainedImpersonation=false") == {"impersonate users", "impersonate groups"}


def test_the_chart_refuses_an_older_cluster_that_cannot_limit_it():
    with pytest.raises(Refused, match=r"needs Kubernetes 1\.36"):
        run(4, "template", "trainshed", str(CHART), "--kube-version", "1.35.0", "--set", ",".join(ON))


def test_a_service_account_that_reads_for_all_may_read_and_logs_only_if_asked():
    found = granted("ui.mode=ReadOnly")
    assert {right.partition(" ")[0] for right in found} == {"get", "list", "watch"}
    assert {right for right in found if "jobs" not in right} == {
        f"{verb} {what}" for verb in ("get", "list", "watch") for what in ("pods", "events")
    }
    assert granted("ui.mode=ReadOnly", "ui.readLogs=true") - found == {"get pods/log"}
    assert granted("ui.mode=ReadOnly", "kinds.mpijob=false") == {right for right in found if "mpijobs" not in right}


def test_with_namespaces_a_reader_has_rights_in_them_only():
    found = page("ui.mode=ReadOnly", "namespaces={a,b}")
    homes = {item["metadata"]["namespace"] for item in found if item["kind"] == "Role"}
    assert homes == {"a", "b"}
    assert not [item for item in found if item["kind"].startswith("ClusterRole")]
    assert "--namespace=a" in the("Deployment", found)["spec"]["template"]["spec"]["containers"][0]["args"]


def test_flags_follow_the_values():
    (container,) = own("Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["ui-server", "--mode=Impersonate", "--user-header=X-Forwarded-User"]
    sets = ("ui.basePath=/trainshed/", "ui.frameAncestors={'self'}", "ui.proxySecret=x", "ui.mode=ReadOnly")
    (container,) = own("Deployment", *sets)["spec"]["template"]["spec"]["containers"]
    assert container["args"][1:] == [
        *("--mode=ReadOnly", "--user-header=X-Forwarded-User", "--base-path=/trainshed/", "--frame-ancestor='self'"),
        "--proxy-secret-file=/etc/trainshed/proxy/secret",
    ]

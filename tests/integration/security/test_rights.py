"""The chart grants exactly the rights of rights.toml, verb by verb, for all values; some rights it never grants."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from charts.rendering import Release
from docs.commands import ROOT
from support.jobs import KINDS
from support.replace import replace

from .rights import OPERATOR, PAGE, Right, granted, lines, written

pytestmark = pytest.mark.usefixtures("helm")
USUAL = frozenset(("tfjob", "pytorchjob", "mpijob", "mpi", "lease"))
LEASES, TOKENS = "leases", "tokenreviews"


@dataclass(frozen=True, slots=True)
class Case:
    """Values, the parts that they switch on, the namespaces of jobs, which kinds, and whose rights are compared."""

    sets: tuple[str, ...]
    parts: frozenset[str]
    namespaces: tuple[str, ...] = ("",)
    kinds: tuple[str, ...] = tuple(KINDS)
    account: str = OPERATOR


def without(*kinds: str) -> tuple[str, ...]:
    """The values that leave these kinds out."""
    return tuple(f"kinds.{kind}=false" for kind in kinds)


ALONE = without("pytorchjob", "xgboostjob", "paddlejob", "jaxjob", "mpijob")
ALL_OPTIONS = ("gangScheduler=volcano", "trackResults=true", "progress.logs.enabled=true", "hangs.ncclRas.enabled=true")
OPTIONAL = USUAL | {"volcano", "results", "progress-logs", "nccl-ras"}
SHOWN = ("ui.enabled=true", "ui.proxyFrom[0].podSelector.matchLabels.app=proxy")
READ_ONLY = (*SHOWN, "ui.mode=ReadOnly", "ui.readLogs=true")
CASES = {
    "usual": Case((), USUAL),
    "all options": Case(ALL_OPTIONS, OPTIONAL),
    "kubernetes": Case(("gangScheduler=kubernetes",), USUAL | {"kubernetes"}),
    "coscheduling": Case(("gangScheduler=scheduler-plugins-scheduler",), USUAL | {"coscheduling"}),
    "KAI": Case(("gangScheduler=kai-scheduler",), USUAL),
    "newer MPIJobs": Case(("mpi.version=v2beta1",), USUAL - {"mpi"} | {"mpi-v2beta1"}),
    "TFJobs alone": Case(ALONE, frozenset(("tfjob", "lease")), kinds=("TFJob",)),
    "reports": Case(("progress.endpoint.enabled=true",), USUAL | {"progress"}),
    "reports of two namespaces": Case(
        ("progress.endpoint.enabled=true", "namespaces={a,b}"), USUAL | {"progress"}, ("a", "b")
    ),
    "health of nodes": Case(
        ("nodeHealth.enabled=true", "namespaces={a,b}"), USUAL | {"node-health", "node-events"}, ("a", "b")
    ),
    "records of two namespaces": Case(("record.enabled=true", "namespaces={a,b}"), USUAL | {"record"}, ("a", "b")),
    "decisions": Case(("record.decisions=Annotated",), USUAL | {"decisions"}),
    "webhooks": Case(("notify.enabled=true",), USUAL),
    "no MPIJobs": Case(without("mpijob"), USUAL - {"mpi", "mpijob"}, kinds=tuple(KINDS.keys() - {"MPIJob"})),
    "one replica": Case(("leaderElection.enabled=false", "replicas=1"), USUAL - {"lease"}),
    "two namespaces": Case(("namespaces={a,b}", *ALL_OPTIONS), OPTIONAL, ("a", "b")),
    "under v1's names": Case(
        ("compatibility.v1Names=true", "compatibility.v1Roles=true"), USUAL, account="training-operator"
    ),
    "beside the page": Case(SHOWN, USUAL),
    "the page without being asked for": Case((), frozenset(), account=PAGE),
    "the page with the rights of users": Case(SHOWN, frozenset(("ui-as-users",)), account=PAGE),
    "the page with the rights of users in two namespaces": Case(
        (*SHOWN, "namespaces={a,b}"), frozenset(("ui-as-users",)), account=PAGE
    ),
    "the page before Kubernetes 1.36": Case(
        (*SHOWN, "ui.constrainedImpersonation=false"), frozenset(("ui-as-any-user",)), account=PAGE
    ),
    "the page with rights of its own": Case((*SHOWN, "ui.mode=ReadOnly"), frozenset(("ui-reads",)), account=PAGE),
    "the page with logs in two namespaces": Case(
        (*READ_ONLY, "namespaces={a,b}"), frozenset(("ui-reads", "ui-logs")), ("a", "b"), account=PAGE
    ),
    "the page without MPIJobs": Case(
        (*READ_ONLY, *without("mpijob")),
        frozenset(("ui-reads", "ui-logs")),
        kinds=tuple(KINDS.keys() - {"MPIJob"}),
        account=PAGE,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_exactly_the_documented_rights_are_granted(case: Case):
    found = granted(Release().documents(None, "crds.install=false", *case.sets), case.account)
    listed = written(case.parts, case.kinds, PAGE if case.account == PAGE else OPERATOR)
    wanted = {_placed(right, where, case) for right in listed for where in case.namespaces}
    assert sorted(map(str, found - wanted)) == [], "granted, and not in rights.toml: say there what it is for"
    assert sorted(map(str, wanted - found)) == [], "in rights.toml, and not granted"


def _placed(right: Right, namespace: str, case: Case) -> Right:
    if right.resource in (TOKENS, "nodes"):
        return right
    if "node-events" in case.parts and (right.resource, right.verb) == ("events", "list"):
        return replace(right, namespace="default")
    own = right.resource == LEASES or (right.named and right.resource == "secrets")
    return replace(right, namespace="trainshed-system" if own else namespace)


def test_every_right_has_one_documented_reason():
    listed = [(one.account, right, part) for one in lines() for right in one.rights for part in one.parts or ("",)]
    assert len(listed) == len(set(listed))
    assert all(line.why for line in lines())


def test_the_page_about_security_names_what_each_right_is_for():
    text = (ROOT / "SECURITY.md").read_text().lower()
    section = text.partition("\n## rights of the operator\n")[2].partition("\n## rights of the page\n")[0]
    found = {right.resource for line in lines() if line.account == OPERATOR for right in line.rights if not right.group}
    assert {"pods/log", "pods/portforward", "pods/exec", "secrets"} <= found
    assert sorted(resource for resource in found if resource not in section) == []


def test_no_right_allows_privilege_escalation():
    for right in (right for line in lines() if line.account == OPERATOR for right in line.rights):
        assert "*" not in (right.group, right.resource, right.verb), right
        assert right.verb not in ("escalate", "bind", "impersonate", "deletecollection"), right
        assert right.resource != "secrets" or right.verb == "create" or right.named, right
        assert right.resource not in ("serviceaccounts/token", "nodes/proxy", "namespaces"), right
        assert right.resource not in ("nodes", "pods/log") or right.verb == "get", right
        assert right.group not in ("admissionregistration.k8s.io", "apiextensions.k8s.io", "certificates.k8s.io"), right


def test_the_page_reads_and_changes_nothing_but_as_a_user_where_that_cannot_be_limited():
    verbs = {right.verb.rpartition(":")[2] for line in lines() if line.account == PAGE for right in line.rights}
    assert verbs == {"get", "list", "watch", "user-info", "impersonate"}
    whom = {right.resource for line in lines() for right in line.rights if right.verb.startswith("impersonate")}
    assert not whom & {"secrets", "serviceaccounts", "uids"}


def test_in_namespaced_mode_there_are_no_cluster_roles():
    documents = Release().documents(None, "crds.install=false", "namespaces={a,b}", *ALL_OPTIONS)
    assert not [found["metadata"]["name"] for found in documents if found["kind"].startswith("ClusterRole")]


def test_user_roles_grant_only_jobs():
    for found in Release().documents(None, "crds.install=false"):
        if found["kind"] == "ClusterRole" and "-jobs-" in found["metadata"]["name"]:
            assert {group for rule in found["rules"] for group in rule["apiGroups"]} == {"kubeflow.org"}
            status = [rule["verbs"] for rule in found["rules"] if rule["resources"][0].endswith("/status")]
            assert status == [["get"]], "who writes a status gives a verdict"

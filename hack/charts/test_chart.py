"""The rendered chart: lint, the objects for given values, and values that Helm rejects."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import yaml

from trainshed.frameworks import FRAMEWORKS

from .rendering import Document, Refused, Release, run
from .values import CHART

pytestmark = pytest.mark.usefixtures("helm")
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding")


@cache
def rendered(*sets: str) -> list[Document]:
    """Return the objects for these values, without the CRDs. Cached: do not modify them."""
    return Release().documents(None, "crds.install=false", *sets)


def kinds(documents: list[Document]) -> set[str]:
    return {document["kind"] for document in documents}


def the(kind: str, documents: list[Document]) -> Document:
    """Return the only object of a kind."""
    (found,) = (document for document in documents if document["kind"] == kind)
    return found


def arguments(*sets: str) -> list[str]:
    """Return the flags of the operator."""
    (container,) = the("Deployment", rendered(*sets))["spec"]["template"]["spec"]["containers"]
    return container["args"]


def rules(documents: list[Document]) -> set[str]:
    """Return all rights of the operator, as `resource: verbs`."""
    own = [
        item
        for item in documents
        if item["kind"] in ("Role", "ClusterRole") and "jobs-" not in item["metadata"]["name"]
    ]
    return {
        f"{resource}: {' '.join(rule['verbs'])}"
        for role in own
        for rule in role["rules"]
        for resource in rule["resources"]
    }


@pytest.mark.parametrize("helm", [3, 4])
def test_lint_finds_nothing(helm: int):
    assert "0 chart(s) failed" in run(helm, "lint", "--strict", "--kube-version", "1.37.1", str(CHART))


@pytest.mark.parametrize("values", ["", "otherwise", "single"])
def test_helm_3_and_helm_4_agree(values: str):
    path = Path(__file__).parent / "snapshots" / f"{values}.values.yaml" if values else None
    assert Release(helm=3).sources(path) == Release(helm=4).sources(path)


@pytest.mark.slow
def test_the_kinds_come_with_it_and_stay_when_it_goes():
    found = [item for item in Release().documents() if item["kind"] == "CustomResourceDefinition"]
    assert [item["metadata"]["name"] for item in found] == [
        f"{framework.plural}.kubeflow.org" for framework in FRAMEWORKS
    ]
    for item in found:
        assert item["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        source = yaml.safe_load(
            (CHART.parents[1] / "crds" / f"kubeflow.org_{item['spec']['names']['plural']}.yaml").read_text()
        )
        assert item["spec"] == source["spec"]


def test_the_kinds_go_with_it_only_if_asked():
    found = [
        item for item in Release().documents(None, "crds.keep=false") if item["kind"] == "CustomResourceDefinition"
    ]
    assert len(found) == len(FRAMEWORKS)
    assert all("annotations" not in item["metadata"] for item in found)


def test_the_other_mpijob_comes_with_its_own_definition_and_rights():
    documents = Release().documents(None, "mpi.version=v2beta1")
    definition = next(item for item in documents if item["metadata"]["name"] == "mpijobs.kubeflow.org")
    assert [version["name"] for version in definition["spec"]["versions"]] == ["v2beta1"]
    assert "secrets: create" in rules(documents)
    assert not {rule for rule in rules(documents) if rule.startswith(("pods/exec", "roles", "serviceaccounts"))}


def test_what_is_not_run_has_no_rights_and_no_definition():
    documents = Release().documents(None, "kinds.mpijob=false", "kinds.pytorchjob=false", "kinds.tfjob=false")
    names = {item["metadata"]["name"] for item in documents if item["kind"] == "CustomResourceDefinition"}
    assert names == {"xgboostjobs.kubeflow.org", "paddlejobs.kubeflow.org", "jaxjobs.kubeflow.org"}
    resources = {rule.split(":")[0] for rule in rules(documents)}
    plurals = ("xgboostjobs", "paddlejobs", "jaxjobs")
    assert resources == {
        *plurals,
        *(f"{plural}/{part}" for plural in plurals for part in ("status", "finalizers")),
        *("pods", "services", "events", "leases"),
    }
    assert [flag for flag in arguments("kinds.mpijob=false", "kinds.pytorchjob=false") if "scheme" in flag] == [
        f"--enable-scheme={kind}" for kind in ("TFJob", "XGBoostJob", "PaddleJob", "JAXJob")
    ]


def test_groups_of_pods_are_a_right_for_who_has_a_scheduler_for_them():
    assert not [rule for rule in rules(rendered()) if "podgroups" in rule]
    schedulers = {
        "volcano": "scheduling.volcano.sh",
        "Kubernetes": "scheduling.k8s.io",
        "my-scheduler": "scheduling.x-k8s.io",
    }
    for scheduler, group in schedulers.items():
        documents = rendered(f"gangScheduler={scheduler}")
        groups = [
            rule for role in documents for rule in role.get("rules", ()) if rule.get("resources") == ["podgroups"]
        ]
        assert [rule["apiGroups"] for rule in groups] == [[group]]
        assert f"--gang-scheduler-name={scheduler}" in arguments(f"gangScheduler={scheduler}")


def test_kai_makes_its_groups_itself():
    assert not [rule for rule in rules(rendered("gangScheduler=kai-scheduler")) if "podgroups" in rule]
    assert "--gang-scheduler-name=kai-scheduler" in arguments("gangScheduler=kai-scheduler")


def test_with_namespaces_nothing_is_given_in_the_cluster():
    documents = rendered("namespaces={a,b}")
    assert kinds(documents).isdisjoint(CLUSTER_WIDE)
    for kind in ("Role", "RoleBinding"):
        homes = {item["metadata"]["namespace"] for item in documents if item["kind"] == kind}
        assert homes == {"a", "b", "trainshed-system"}
    own = [item for item in documents if item["kind"] == "Role" and item["metadata"]["namespace"] == "trainshed-system"]
    assert [rule["resources"] for role in own for rule in role["rules"]] == [["leases"]]
    assert rules(documents) == rules(rendered())
    assert "--namespace=a,b" in arguments("namespaces={a,b}")
    bindings = [item["spec"] for item in documents if item["kind"] == "ValidatingAdmissionPolicyBinding"]
    selectors = [found["matchResources"]["namespaceSelector"]["matchExpressions"] for found in bindings]
    assert [where["values"] for (where,) in selectors] == [["a", "b"]] * 2


def test_it_runs_under_the_restricted_standard_and_in_good_order():
    deployment = the("Deployment", rendered())["spec"]
    assert deployment["replicas"] == 2
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"requests", "limits"} <= set(container["resources"])
    assert pod["affinity"]["podAntiAffinity"]
    assert pod["topologySpreadConstraints"]
    assert "--no-leader-elect" not in container["args"]


def test_whoever_selects_the_pods_finds_them():
    documents = rendered("monitoring.podMonitor.enabled=true", "monitoring.serviceMonitor.enabled=true")
    labels = the("Deployment", documents)["spec"]["template"]["metadata"]["labels"].items()
    selectors = [
        the("Deployment", documents)["spec"]["selector"]["matchLabels"],
        the("PodDisruptionBudget", documents)["spec"]["selector"]["matchLabels"],
        the("NetworkPolicy", documents)["spec"]["podSelector"]["matchLabels"],
        the("PodMonitor", documents)["spec"]["selector"]["matchLabels"],
        the("Service", documents)["spec"]["selector"],
    ]
    assert all(selector and selector.items() <= labels for selector in selectors)
    service = the("Service", documents)["metadata"]["labels"].items()
    assert the("ServiceMonitor", documents)["spec"]["selector"]["matchLabels"].items() <= service


def test_alerts_keep_their_braces():
    documents = rendered("monitoring.alerts.enabled=true", "monitoring.dashboard.enabled=true")
    source = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    assert the("PrometheusRule", documents)["spec"]["groups"][0]["rules"] == source
    assert "{{ $labels" in str(source)
    based = rendered("monitoring.alerts.enabled=true", "monitoring.alerts.runbookBaseUrl=https://git.example.com/main/")
    for rule, plain in zip(the("PrometheusRule", based)["spec"]["groups"][0]["rules"], source, strict=True):
        path = plain["annotations"]["runbook_url"]
        assert rule["annotations"]["runbook_url"] == f"https://git.example.com/main/{path}"
    dashboard = the("ConfigMap", documents)["data"]["trainshed.json"]
    assert dashboard.strip() == (CHART / "files" / "dashboard.json").read_text().strip()


def test_the_image_is_named_by_its_digest_if_there_is_one():
    for sets, image in (((), "trainshed:dev"), (("image.digest=sha256:" + 64 * "a",), "trainshed@sha256:" + 64 * "a")):
        (container,) = the("Deployment", rendered(*sets))["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"ghcr.io/trainshed/{image}"


def test_people_have_their_rights_by_kubernetes_own_roles():
    roles = {
        item["metadata"]["name"]: item["metadata"]["labels"] for item in rendered() if item["kind"] == "ClusterRole"
    }
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    granted = {name: {key.removeprefix(prefix) for key in labels if prefix in key} for name, labels in roles.items()}
    assert granted["trainshed-jobs-edit"] == {"edit", "admin"}
    assert granted["trainshed-jobs-view"] == {"view"}
    assert not granted["trainshed"]


def test_v1s_roles_and_names_come_if_asked():
    documents = rendered("compatibility.v1Names=true", "compatibility.v1Roles=true")
    names = {item["metadata"]["name"] for item in documents}
    assert {"training-operator", "kubeflow-training-admin", "kubeflow-training-edit", "kubeflow-training-view"} <= names
    selector = the("Deployment", documents)["spec"]["selector"]["matchLabels"]
    assert selector == {"control-plane": "kubeflow-training-operator"}
    assert the("Service", documents)["spec"]["ports"][0]["name"] == "monitoring-port"


def test_the_policy_on_annotations_is_there_unless_it_is_switched_off():
    policies = {item["metadata"]["name"] for item in rendered() if item["kind"] == "ValidatingAdmissionPolicy"}
    assert policies == {"trainshed-annotations", "trainshed-service-accounts"}
    off = rendered("annotationPolicy.enabled=false", "serviceAccountPolicy.enabled=false")
    assert "ValidatingAdmissionPolicy" not in kinds(off)
    (binding,) = (
        item
        for item in rendered("annotationPolicy.actions={Warn}", "serviceAccountPolicy.enabled=false")
        if item["kind"] == "ValidatingAdmissionPolicyBinding"
    )
    assert binding["spec"]["validationActions"] == ["Warn"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("replica=3", "replica"),
        ("replicas=two", "replicas"),
        ("kinds.trainjob=true", "trainjob"),
        ("mpi.version=v2", "version"),
        ("image.digest=abc", "digest"),
        ("namespaces={Team}", "namespaces"),
        ("log.level=loud", "level"),
        ("serviceAccountPolicy.actions={}", "actions"),
        ("annotationPolicy.actions={Refuse}", "actions"),
        ("monitoring.interval=soon", "interval"),
        ("leaderElection.enabled=false", "more than one replica requires leaderElection.enabled"),
        ("ui.enabled=true", "ui.proxyFrom: name the pods of the proxy"),
        ("ui.enabled=true,networkPolicy.enabled=false", "ui.proxySecret: without networkPolicy.enabled"),
        ("ui.basePath=trainshed", "basePath"),
        ("ui.frameAncestors={*; script-src *}", "frameAncestors"),
        (",".join(f"kinds.{framework.kind.lower()}=false" for framework in FRAMEWORKS), "at least one kind"),
    ],
)
def test_bad_values_are_refused_with_a_word_on_which(bad: str, message: str):
    with pytest.raises(Refused, match=message):
        rendered(bad)


def test_helm_3_refuses_them_as_well():
    with pytest.raises(Refused, match="level"):
        Release(helm=3).documents(None, "log.level=loud")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("replicas=2", "kubectl create -f examples/pytorch/distributed-pytorch-job.yaml"),
        ("crds.install=false", "kubectl apply --server-side -f crds/"),
        ("namespaces={lab}", "--namespace lab --role trainshed-jobs-edit"),
        ("serviceAccountPolicy.enabled=false", "WARNING: serviceAccountPolicy.enabled is false"),
        ("crds.keep=false", "WARNING: crds.keep is false"),
        ("replicas=1", "WARNING: with 1 replicas"),
    ],
)
def test_the_notes_say_what_comes_next(values: str, expected: str):
    release = ("install", "trainshed", str(CHART), "--dry-run=client", "--namespace", "trainshed-system")
    assert expected in run(4, *release, "--set", values).partition("NOTES:")[2]

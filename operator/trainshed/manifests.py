"""Writes crds/ and the rights in manifests/ and profiles/; with --check it says what is stale, and fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import click
import yaml

from trainshed.api import template
from trainshed.api.crd import definition
from trainshed.api.framework import Framework
from trainshed.frameworks import FRAMEWORKS, MPI_VERSIONS

ROOT = Path(__file__).parents[2]
NAMESPACE, ACCOUNT = "trainshed-system", "trainshed"
KINDS = [framework.plural for framework in FRAMEWORKS]
NOTE = "# Written by `make manifests`; change what it is made from instead.\n"

#: Rights: API group, resources, verbs.
Rules = tuple[tuple[str, list[str], list[str]], ...]
DEPENDENTS = ["create", "get", "list", "watch", "patch"]
#: What the operator may do in every namespace. No secrets, no exec, no rights to give rights.
RULES: Rules = (
    ("kubeflow.org", KINDS, ["get", "list", "watch", "delete"]),  # delete: ttlSecondsAfterFinished
    ("kubeflow.org", [f"{kind}/status" for kind in KINDS], ["patch"]),
    ("kubeflow.org", [f"{kind}/finalizers" for kind in KINDS], ["update"]),  # for OwnerReferencesPermissionEnforcement
    ("", ["pods", "services"], ["create", "delete", "get", "list", "watch"]),
    ("", ["configmaps"], DEPENDENTS),  # the addresses of a big TFJob's members, the hosts of an MPIJob
    ("autoscaling", ["horizontalpodautoscalers"], [*DEPENDENTS, "delete"]),
    ("scheduling.volcano.sh", ["podgroups"], [*DEPENDENTS, "delete"]),
    ("scheduling.x-k8s.io", ["podgroups"], [*DEPENDENTS, "delete"]),
    ("", ["events"], ["create", "patch"]),
)
#: For MPIJobs alone: their launchers start processes in their workers by `kubectl exec`, and nobody can give a right
#: that he does not have. Who runs no MPIJobs leaves this role out, and MPIJob out of --enable-scheme.
MPI_RULES: Rules = (
    ("", ["serviceaccounts"], DEPENDENTS),
    ("rbac.authorization.k8s.io", ["roles", "rolebindings"], DEPENDENTS),
    ("", ["pods/exec"], ["create"]),
)
#: The same for MPIJobs of v2beta1, whose launchers come in by ssh: to make keys, and never to read any.
MPI_V2BETA1_RULES: Rules = (("", ["secrets"], ["create"]),)
#: And in its own: the Lease of the leader.
LEASE_RULES: Rules = (("coordination.k8s.io", ["leases"], ["create", "get", "update"]),)
#: What v1's roles for people allow: to have and change jobs, with all that goes with it, and to look at them.
LOOK = ["get", "list", "watch"]
STATUSES = ("kubeflow.org", [f"{kind}/status" for kind in KINDS], ["get"])
EDIT_RULES: Rules = (
    ("kubeflow.org", KINDS, ["create", "delete", "get", "list", "patch", "update", "watch"]),
    STATUSES,
    ("kueue.x-k8s.io", ["localqueues"], ["get", "list"]),
    ("", ["persistentvolumeclaims"], ["create", "delete", *LOOK]),
    ("", ["events"], LOOK),
)
VIEW_RULES: Rules = (("kubeflow.org", KINDS, LOOK), STATUSES)


class _Plain(yaml.SafeDumper):
    """Writes a value out again wherever it stands: anchors are hard to read, and some tools do not know them."""

    def ignore_aliases(self, data: object) -> bool:
        """Every value is written out."""
        del data
        return True


def text(*documents: dict[str, Any]) -> str:
    """Documents as YAML; small maps and lists on a line of their own."""
    options: dict[str, Any] = {"sort_keys": False, "width": 120, "default_flow_style": None, "explicit_start": True}
    return f"{NOTE}{yaml.dump_all(documents, Dumper=_Plain, **options)}"


def files() -> Iterator[tuple[Path, str]]:
    """Every generated file and what is to be in it."""
    for framework in FRAMEWORKS:
        yield ROOT / "crds" / _file(framework), text(definition(framework))
    newer = MPI_VERSIONS["v2beta1"]
    yield ROOT / "crds" / newer.version / _file(newer), text(definition(newer))
    yield ROOT / "manifests" / "rbac.yaml", text(*rights())
    yield ROOT / "manifests" / "rbac-mpi.yaml", text(*mpi_rights("mpi", MPI_RULES))
    newer_rights = mpi_rights("mpi-v2beta1", MPI_V2BETA1_RULES)
    yield ROOT / "profiles" / "mpi-v2beta1" / "rbac.yaml", text(*newer_rights)
    yield ROOT / "profiles" / "v1" / "user-roles.yaml", text(*user_rights())


def _file(framework: Framework) -> str:
    return f"kubeflow.org_{framework.plural}.yaml"


def rights() -> Iterator[dict[str, Any]]:
    """The roles of the operator, and who has them."""
    yield from _role("ClusterRole", RULES, {"name": ACCOUNT})
    yield from _role("Role", LEASE_RULES, {"name": ACCOUNT, "namespace": NAMESPACE})


def mpi_rights(name: str, rules: Rules) -> Iterator[dict[str, Any]]:
    """What MPIJobs need on top of that."""
    yield from _role("ClusterRole", rules, {"name": f"{ACCOUNT}-{name}"})


def user_rights() -> Iterator[dict[str, Any]]:
    """v1's roles for people, which are parts of Kubeflow's: who may have and change jobs, and who may look at them."""
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    part_of_admin = {"aggregate-to-kubeflow-training-admin": "true"}
    selector = {"matchLabels": _prefixed(part_of_admin)}
    admin = {"aggregationRule": {"clusterRoleSelectors": [selector]}, "rules": []}
    yield {**head, "metadata": _user("admin"), **admin}
    yield {**head, "metadata": _user("edit", **part_of_admin), "rules": [_rule(*rule) for rule in EDIT_RULES]}
    yield {**head, "metadata": _user("view"), "rules": [_rule(*rule) for rule in VIEW_RULES]}


def _user(what: str, **more: str) -> dict[str, Any]:
    return {
        "name": f"kubeflow-training-{what}",
        "labels": _prefixed({f"aggregate-to-kubeflow-{what}": "true", **more}),
    }


def _prefixed(labels: dict[str, str]) -> dict[str, str]:
    return {f"rbac.authorization.kubeflow.org/{key}": value for key, value in labels.items()}


def _role(kind: str, rules: Rules, metadata: dict[str, str]) -> Iterator[dict[str, Any]]:
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata}
    yield {**head, "rules": [_rule(*rule) for rule in rules]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]}
    yield {**head, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]}


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, list[str]]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if something is stale.")
@click.option(
    "--pod-template", type=click.File("r"), help=f"An API server's {template.WHERE}, to take the schema from."
)
def main(*, check: bool, pod_template: TextIO | None) -> None:
    """Write the generated files anew."""
    if pod_template is not None:
        schema = json.dumps(template.lean(json.load(pod_template)), separators=(",", ":"), sort_keys=True)
        Path(template.__file__).with_name(template.FILE).write_text(schema + "\n", encoding="utf-8")
    stale = [(path, wanted) for path, wanted in files() if not path.exists() or path.read_text() != wanted]
    for path, wanted in stale:
        click.echo(f"{path.relative_to(ROOT)} {'is stale: make manifests' if check else 'written'}")
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(wanted, encoding="utf-8")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()

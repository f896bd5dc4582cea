"""Writes crds/, and the chart's copy of them and its rights; with --check it says what is stale, and fails."""

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
CHART = ROOT / "charts" / "trainshed" / "files"
KINDS = [framework.plural for framework in FRAMEWORKS]
NOTE = "# Written by `make manifests`; change what it is made from instead.\n"

#: Rights: API group, resources, verbs. The chart chooses which of them a cluster needs.
Rules = tuple[tuple[str, list[str], list[str]], ...]
DEPENDENTS = ["create", "get", "list", "watch", "patch"]
PASSING = [*DEPENDENTS, "delete"]
#: What the operator may do wherever it looks after jobs. No secrets, no exec, no rights to give rights.
RULES: Rules = (
    ("kubeflow.org", KINDS, ["get", "list", "watch", "delete"]),  # delete: ttlSecondsAfterFinished
    ("kubeflow.org", [f"{kind}/status" for kind in KINDS], ["patch"]),
    ("kubeflow.org", [f"{kind}/finalizers" for kind in KINDS], ["update"]),  # for OwnerReferencesPermissionEnforcement
    ("", ["pods", "services"], ["create", "delete", "get", "list", "watch"]),
    ("", ["events"], ["create", "patch"]),
)
CONFIG_MAPS: Rules = (("", ["configmaps"], DEPENDENTS),)
#: What some kinds need on top: the addresses of a big TFJob's members, an elastic PyTorchJob's autoscaler, the hosts of
#: an MPIJob.
KIND_RULES: dict[str, Rules] = {
    "tfjob": CONFIG_MAPS,
    "pytorchjob": (("autoscaling", ["horizontalpodautoscalers"], PASSING),),
    "mpijob": CONFIG_MAPS,
}
GANG_RULES: dict[str, Rules] = {
    "volcano": (("scheduling.volcano.sh", ["podgroups"], PASSING),),
    "coscheduling": (("scheduling.x-k8s.io", ["podgroups"], PASSING),),
}
#: For MPIJobs alone: their launchers start processes in their workers by `kubectl exec`, and nobody can give a right
#: that he does not have.
MPI_RULES: Rules = (
    ("", ["serviceaccounts"], DEPENDENTS),
    ("rbac.authorization.k8s.io", ["roles", "rolebindings"], DEPENDENTS),
    ("", ["pods/exec"], ["create"]),
)
#: The same for MPIJobs of v2beta1, whose launchers come in by ssh: to make keys, and never to read any.
MPI_V2BETA1_RULES: Rules = (("", ["secrets"], ["create"]),)
#: With --keep-results: to take our finalizer off pods. It could change more of them, so nobody has it unasked.
RESULT_RULES: Rules = (("", ["pods"], ["patch"]),)
#: And in its own namespace: the Lease of the leader.
LEASE_RULES: Rules = (("coordination.k8s.io", ["leases"], ["create", "get", "update"]),)
#: What people need: to have and change jobs, and to look at them. v1's role lets them have what goes with jobs as well.
LOOK = ["get", "list", "watch"]
STATUSES = ("kubeflow.org", [f"{kind}/status" for kind in KINDS], ["get"])
EDIT_RULES: Rules = (("kubeflow.org", KINDS, ["create", "delete", "get", "list", "patch", "update", "watch"]), STATUSES)
V1_EDIT_RULES: Rules = (
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
    for crds in (ROOT / "crds", CHART / "crds"):
        for framework in FRAMEWORKS:
            yield crds / _file(framework), text(definition(framework))
        newer = MPI_VERSIONS["v2beta1"]
        yield crds / newer.version / _file(newer), text(definition(newer))
    yield CHART / "rbac.yaml", text(rights())


def _file(framework: Framework) -> str:
    return f"kubeflow.org_{framework.plural}.yaml"


def rights() -> dict[str, Any]:
    """All rights by what they are for, as the chart's templates read them."""
    return {
        "always": _rules(RULES),
        "kinds": {kind: _rules(rules) for kind, rules in KIND_RULES.items()},
        "gang": {scheduler: _rules(rules) for scheduler, rules in GANG_RULES.items()},
        "mpi": _rules(MPI_RULES),
        "mpi-v2beta1": _rules(MPI_V2BETA1_RULES),
        "results": _rules(RESULT_RULES),
        "lease": _rules(LEASE_RULES),
        "people": {"edit": _rules(EDIT_RULES), "v1Edit": _rules(V1_EDIT_RULES), "view": _rules(VIEW_RULES)},
    }


def _rules(rules: Rules) -> list[dict[str, list[str]]]:
    return [{"apiGroups": [group], "resources": resources, "verbs": verbs} for group, resources, verbs in rules]


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
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted, encoding="utf-8")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()

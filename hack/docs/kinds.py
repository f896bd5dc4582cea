"""The generated parts of the page of a kind, from the framework and from its rendered example."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from trainshed.api import parse
from trainshed.api.framework import Framework, JobDefaults, Quorum, SuccessPolicy
from trainshed.api.job import RestartScope
from trainshed.cli.render import render
from trainshed.frameworks import FRAMEWORKS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KINDS = {framework.kind: framework for framework in FRAMEWORKS}
Shape = tuple[str, dict[str, int], dict[str, Any]]
#: The forms of jobs of a kind: a description, the replicas of each replica type, and other fields of the spec.
SHAPES: dict[str, tuple[Shape, ...]] = {
    "TFJob": (
        ("with a chief", {"Chief": 1, "Worker": 2}, {}),
        ("with a chief and parameter servers", {"Chief": 1, "PS": 1, "Worker": 2}, {}),
        ("workers only", {"Worker": 2}, {}),
        ("workers only, `successPolicy: AllWorkers`", {"Worker": 2}, {"successPolicy": "AllWorkers"}),
        ("`enableDynamicWorker`", {"PS": 1, "Worker": 2}, {"enableDynamicWorker": True}),
    ),
    "PyTorchJob": (
        ("with a master", {"Master": 1, "Worker": 2}, {}),
        ("workers only", {"Worker": 2}, {}),
        ("elastic (`elasticPolicy`)", {"Worker": 2}, {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}}),
    ),
    "JAXJob": (("workers", {"Worker": 2}, {}),),
    "XGBoostJob": (("a master and workers", {"Master": 1, "Worker": 2}, {}),),
    "PaddleJob": (
        ("workers only (collective)", {"Worker": 2}, {}),
        ("with a master (parameter server)", {"Master": 1, "Worker": 2}, {}),
    ),
    "MPIJob": (("a launcher and workers", {"Launcher": 1, "Worker": 2}, {}),),
}
SCOPES = {
    RestartScope.REPLICA: "`Replica`: the failed replica",
    RestartScope.ROLE: "`Role`: all replicas of its type",
    RestartScope.JOB: "`Job`: all replicas together",
}


def glance(kind: str) -> str:
    """Return the table of the properties of a kind."""
    framework = KINDS[kind]
    port = (
        f"{framework.container.port} (`{framework.container.port_name}`)"
        if framework.container.port
        else "none: the launcher uses `kubectl exec`"
    )
    rows = (
        ("resource", f"`{framework.plural}.kubeflow.org/{framework.version}`"),
        ("replica types, in `spec." + framework.field + "`", ", ".join(f"`{role}`" for role in framework.roles)),
        ("container", f"`{framework.container.name}`" if framework.container.by_name else "the first one, of any name"),
        ("port", port),
        ("default `restartPolicy`", f"`{framework.defaults.restart_policy}`"),
    )
    return "\n".join(("| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)))


def goals(kind: str) -> str:
    """Return the table of success policy and default restart scope, for each form of a kind."""
    rows = (_row(KINDS[kind], shape) for shape in SHAPES[kind])
    head = ("| job | succeeds when | `restart-scope: Auto` is |", "|---|---|---|")
    return "\n".join((*head, *rows))


def example(name: str) -> str:
    """Return the job of an example literally, without the annotations for the tests."""
    text = (EXAMPLES / f"{name}.yaml").read_text()
    job = next(part for part in text.split("\n---\n") if "\napiVersion: kubeflow.org/" in f"\n{part}").strip()
    shown = re.sub(r"^  annotations:.*\n(?:    .*\n)+", "", job, flags=re.MULTILINE)
    return f"```yaml\n{shown}\n```"


def environment(name: str) -> str:
    """Return the table of the variables that the operator sets in the pods of an example."""
    outcome = CliRunner().invoke(render, ["-f", str(EXAMPLES / f"{name}.yaml")])
    assert outcome.exit_code == 0, outcome.output
    job = next(found for found in _documents(name) if str(found.get("apiVersion")).startswith("kubeflow.org/"))
    pods = [found for found in yaml.safe_load_all(outcome.stdout) if found["kind"] == "Pod"]
    own = _set_by_user(job)
    seen = {pod["metadata"]["name"].removeprefix(f"{job['metadata']['name']}-"): _variables(pod) for pod in pods}
    shown = {member: {key: value for key, value in found.items() if key not in own} for member, found in seen.items()}
    return "\n".join(_listed({member: found for member, found in shown.items() if found}))


def _listed(shown: dict[str, dict[str, str]]) -> Iterator[str]:
    names = list(dict.fromkeys(name for found in shown.values() for name in found))
    documents = [name for name in names if any(found.get(name, "").startswith("{") for found in shown.values())]
    if rest := [name for name in names if name not in documents]:
        yield f"| variable | {' | '.join(shown)} |"
        yield "|---" * (len(shown) + 1) + "|"
        for name in rest:
            yield f"| `{name}` | {' | '.join(_cell(found.get(name)) for found in shown.values())} |"
    for name in documents:
        member, found = next(iter(shown.items()))
        yield from ("", f"`{name}` of {member}:", "", "```json", json.dumps(json.loads(found[name]), indent=2), "```")


def _cell(value: str | None) -> str:
    return f"`{value}`" if value else ("(empty)" if value == "" else "-")


def _row(framework: Framework, shape: Shape) -> str:
    said, groups, rest = shape
    container = {"name": framework.container.name, "image": "x"}
    template = {"template": {"spec": {"containers": [container]}}}
    roles = {role: {"replicas": count, **template} for role, count in groups.items()}
    document = {"metadata": {"name": "x", "namespace": "x"}, "spec": {framework.field: roles, **rest}}
    job = parse.job(document, framework, JobDefaults())
    assert not job.problems, job.problems
    goal = framework.hooks.success_policy(job)
    assert goal, f"{framework.kind} {said} has no goal"
    return f"| {said} | {_when(goal, job.of(goal.role).count)} | {SCOPES[framework.hooks.scope(job)]} |"


def _when(goal: SuccessPolicy, count: int) -> str:
    role = goal.role.lower()
    served = f" while all {goal.depends_on.lower()}s still run" if goal.depends_on else ""
    all_of = f"all {role}s succeed" if count > 1 else f"the {role} succeeds"
    first = f"{role} 0 succeeds, or all {role}s succeed"
    return {Quorum.ALL: all_of, Quorum.FIRST: first, Quorum.ANY: f"any {role} succeeds"}[goal.quorum] + served


def _documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))


def _set_by_user(job: dict[str, Any]) -> set[str]:
    groups = next(value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs")).values()
    containers = (box for group in groups for box in group["template"]["spec"]["containers"])
    return {variable["name"] for box in containers for variable in box.get("env") or ()}


def _variables(pod: dict[str, Any]) -> dict[str, str]:
    """Return name and value of each variable of the first container; for a fieldRef the path of the field."""
    found = pod["spec"]["containers"][0].get("env") or ()
    return {entry["name"]: _value(entry) for entry in found}


def _value(entry: dict[str, Any]) -> str:
    source = (entry.get("valueFrom") or {}).get("fieldRef") or {}
    return str(entry.get("value", source.get("fieldPath", "")))

"""What users put into environments, command lines and annotations shows up in no log, Event, status or metric."""

from __future__ import annotations

import json
import uuid

import pytest

from support import Operator, Operators
from support.fake_kubelet import Stage
from support.jobs import pod_spec, pytorchjob, replicas, tfjob
from support.user_client import Hand, Refused, eventually
from testbed.control_plane import ControlPlane
from trainshed.client.redaction import REDACTED

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CANARY = f"canary-{uuid.uuid4().hex}"
#: What a policy says that quotes all that a user may have put into a pod.
POD_QUOTE = (
    "'this will not do: ' + object.spec.containers[0].args[0] + ', ' + object.spec.containers[0].env[0].value"
    " + ', ' + object.spec.containers[0].command[0] + ', ' + object.metadata.annotations['note']"
)
STATUS_QUOTE = "'this will not do: ' + object.spec.tfReplicaSpecs.Worker.template.spec.containers[0].args[0]"


@pytest.fixture
def operator(elsewhere: ControlPlane, yard: Hand, operators: Operators) -> Operator:
    """One that tells all that it ever tells."""
    flags = ("--no-leader-elect", f"--namespace={yard.namespace}", "--log-level=debug", "--log-format=json")
    return operators.begin(elsewhere.kubeconfig, *flags, "--job-metrics")


def with_canary(job: dict, role: str = "Worker") -> dict:
    """The job with the secret wherever a user may put one."""
    container = pod_spec(job, role)["containers"][0]
    container["env"] = [{"name": "TOKEN", "value": f"{CANARY}-env"}]
    container["command"], container["args"] = [f"{CANARY}-command"], [f"--token={CANARY}-args", f"{CANARY}\n{CANARY}"]
    replicas(job, role)["template"]["metadata"] = {"annotations": {"note": f"{CANARY}-note"}}
    job["metadata"]["annotations"] = {"note": f"{CANARY}-job"}
    return job


def forbid(hand: Hand, name: str, rule: dict, quote: str) -> None:
    """A policy that lets nothing of a sort into the namespace, and quotes what it does not like."""
    where = {"matchLabels": {"kubernetes.io/metadata.name": hand.namespace}}
    spec = {
        "matchConstraints": {"namespaceSelector": where, "resourceRules": [rule]},
        "validations": [{"expression": "false", "messageExpression": quote}],
    }
    hand.call("POST", f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    hand.call("POST", f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": binding})


def lift(hand: Hand, name: str) -> None:
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        hand.call("DELETE", f"{ADMISSION}/{plural}/{name}")


def blocked(hand: Hand, name: str) -> str:
    """Why the pods of a job cannot be made."""
    return hand.conditions("TFJob", name).get("Blocked", {}).get("message", "")


def everything(hand: Hand, operator: Operator) -> dict[str, str]:
    """All that the operator has told of, by where."""
    jobs = [job for kind in ("TFJob", "PyTorchJob") for job in hand.jobs(kind)]
    return {
        "log": operator.log.read_text(),
        "events": json.dumps(hand.core("events")),
        "statuses": json.dumps([job.get("status") for job in jobs]),
        "metrics": operator.served(),
    }


def test_a_server_that_quotes_all_makes_nobody_repeat_it(yard: Hand, operator: Operator):
    pods, statuses = (f"{what}-{yard.namespace}" for what in ("pods", "statuses"))
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    forbid(yard, pods, rule, POD_QUOTE)
    eventually(lambda: refuses(yard), 20)
    yard.create(with_canary(tfjob("refused", Worker=2)))
    said = eventually(lambda: blocked(yard, "refused"))
    assert said.count(REDACTED) == 4, said
    lift(yard, pods)

    rule = {"apiGroups": ["kubeflow.org"], "apiVersions": ["v1"], "operations": ["UPDATE"]}
    forbid(yard, statuses, {**rule, "resources": ["tfjobs/status"]}, STATUS_QUOTE)
    quoted = f"this will not do: {REDACTED}"
    yard.create(with_canary(tfjob("silent", Worker=1)))
    eventually(lambda: any(quoted in line and "silent" in line for line in lines(operator)), 20)
    lift(yard, statuses)

    wrong = with_canary(tfjob("wrong", Worker=1))
    pod_spec(wrong, "Worker")["containers"][0]["volumeMounts"] = [{"name": "missing", "mountPath": f"/{CANARY}"}]
    yard.create(wrong)
    eventually(lambda: 'Not found: "missing"' in blocked(yard, "wrong"))

    eventually(lambda: REDACTED in json.dumps(yard.core("events")), 20)
    told = everything(yard, operator)
    assert [where for where, text in told.items() if CANARY in text] == []
    assert REDACTED in told["log"]


def test_jobs_that_fail_run_out_of_time_and_are_invalid_give_nothing_away(yard: Hand, operator: Operator):
    late = with_canary(tfjob("late", policy={"activeDeadlineSeconds": 1}, Worker=1))
    again = with_canary(with_canary(pytorchjob("again", restart="ExitCode", Master=1, Worker=1)), "Master")
    bad = with_canary(tfjob("bad", Worker=1))
    bad["metadata"]["annotations"]["trainshed.dev/restart-scope"] = "Everything"
    with Stage(yard) as stage:
        for job in (late, again, bad):
            yard.create(job)
        eventually(lambda: yard.state("PyTorchJob", "again") == "Running")
        stage.end("again-worker-0", 137)
        eventually(lambda: stage.created.count("again-worker-0") == 2, 20)
        eventually(lambda: yard.state("PyTorchJob", "again") == "Running", 20)
        stage.end("again-master-0", 1)
        for kind, name in (("PyTorchJob", "again"), ("TFJob", "late"), ("TFJob", "bad")):
            eventually(lambda kind=kind, name=name: yard.state(kind, name) == "Failed", 20)
        eventually(lambda: yard.events("again"))
    told = everything(yard, operator)
    assert [where for where, text in told.items() if CANARY in text] == []
    jobs = [json.loads(line).get("job") for line in lines(operator)]
    assert {"kind": "TFJob", "namespace": yard.namespace, "name": "late"} in jobs
    assert operator.stop() == 0
    assert operator.complaints() == []


def lines(operator: Operator) -> list[str]:
    """The whole lines of the log."""
    return [line for line in operator.log.read_text().splitlines(keepends=True) if line.endswith("\n")]


def refuses(hand: Hand) -> bool:
    """Whether the policy is in force."""
    container = {"name": "c", "image": "x", "args": ["a"], "command": ["a"], "env": [{"name": "A", "value": "a"}]}
    body = {"metadata": {"name": "probe", "annotations": {"note": "a"}}, "spec": {"containers": [container]}}
    try:
        hand.call("POST", f"/api/v1/namespaces/{hand.namespace}/pods?dryRun=All", body)
    except Refused as refused:
        return "this will not do" in str(refused)
    return False

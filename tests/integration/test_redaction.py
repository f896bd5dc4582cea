"""Users' environments, command lines and annotations appear in no log, Event, status or metric."""

from __future__ import annotations

import json
import uuid

import pytest

from support import Operator, Operators
from support.fake_kubelet import FakeKubelet
from support.jobs import pod_spec, pytorchjob, replicas, tfjob
from support.user_client import Refused, UserClient, eventually
from testbed.control_plane import ControlPlane
from trainshed.client.redaction import REDACTED

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CANARY = f"canary-{uuid.uuid4().hex}"
#: The message of a policy that quotes every text that a user may put into a pod.
POD_QUOTE = (
    "'this will not do: ' + object.spec.containers[0].args[0] + ', ' + object.spec.containers[0].env[0].value"
    " + ', ' + object.spec.containers[0].command[0] + ', ' + object.metadata.annotations['note']"
)
STATUS_QUOTE = "'this will not do: ' + object.spec.tfReplicaSpecs.Worker.template.spec.containers[0].args[0]"


@pytest.fixture
def operator(second_server: ControlPlane, second_user: UserClient, operators: Operators) -> Operator:
    """One that logs all that it can."""
    flags = ("--no-leader-elect", f"--namespace={second_user.namespace}", "--log-level=debug", "--log-format=json")
    return operators.begin(second_server.kubeconfig, *flags, "--job-metrics")


def with_canary(job: dict, role: str = "Worker") -> dict:
    """The job with the secret wherever a user may put one."""
    container = pod_spec(job, role)["containers"][0]
    container["env"] = [{"name": "TOKEN", "value": f"{CANARY}-env"}]
    container["command"], container["args"] = [f"{CANARY}-command"], [f"--token={CANARY}-args", f"{CANARY}\n{CANARY}"]
    replicas(job, role)["template"]["metadata"] = {"annotations": {"note": f"{CANARY}-note"}}
    job["metadata"]["annotations"] = {"note": f"{CANARY}-job"}
    return job


def forbid(user: UserClient, name: str, rule: dict, quote: str) -> None:
    """Install a policy that refuses all objects of a sort in the namespace, and quotes them."""
    where = {"matchLabels": {"kubernetes.io/metadata.name": user.namespace}}
    spec = {
        "matchConstraints": {"namespaceSelector": where, "resourceRules": [rule]},
        "validations": [{"expression": "false", "messageExpression": quote}],
    }
    user.call("POST", f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    user.call("POST", f"{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": binding})


def lift(user: UserClient, name: str) -> None:
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        user.call("DELETE", f"{ADMISSION}/{plural}/{name}")


def blocked(user: UserClient, name: str) -> str:
    """Return why the pods of a job cannot be created."""
    return user.conditions("TFJob", name).get("Blocked", {}).get("message", "")


def everything(user: UserClient, operator: Operator) -> dict[str, str]:
    """Return all texts that the operator has written, by place."""
    jobs = [job for kind in ("TFJob", "PyTorchJob") for job in user.jobs(kind)]
    return {
        "log": operator.log.read_text(),
        "events": json.dumps(user.core("events")),
        "statuses": json.dumps([job.get("status") for job in jobs]),
        "metrics": operator.served(),
    }


def test_messages_of_a_server_that_quotes_the_request_are_redacted(second_user: UserClient, operator: Operator):
    pods, statuses = (f"{what}-{second_user.namespace}" for what in ("pods", "statuses"))
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    forbid(second_user, pods, rule, POD_QUOTE)
    eventually(lambda: refuses(second_user), 20)
    second_user.create(with_canary(tfjob("refused", Worker=2)))
    said = eventually(lambda: blocked(second_user, "refused"))
    assert said.count(REDACTED) == 4, said
    lift(second_user, pods)

    rule = {"apiGroups": ["kubeflow.org"], "apiVersions": ["v1"], "operations": ["UPDATE"]}
    forbid(second_user, statuses, {**rule, "resources": ["tfjobs/status"]}, STATUS_QUOTE)
    quoted = f"this will not do: {REDACTED}"
    second_user.create(with_canary(tfjob("silent", Worker=1)))
    eventually(lambda: any(quoted in line and "silent" in line for line in lines(operator)), 20)
    lift(second_user, statuses)

    wrong = with_canary(tfjob("wrong", Worker=1))
    pod_spec(wrong, "Worker")["containers"][0]["volumeMounts"] = [{"name": "missing", "mountPath": f"/{CANARY}"}]
    second_user.create(wrong)
    eventually(lambda: 'Not found: "missing"' in blocked(second_user, "wrong"))

    eventually(lambda: REDACTED in json.dumps(second_user.core("events")), 20)
    texts = everything(second_user, operator)
    assert [where for where, text in texts.items() if CANARY in text] == []
    assert REDACTED in texts["log"]


def test_failed_expired_and_invalid_jobs_show_no_user_values(second_user: UserClient, operator: Operator):
    late = with_canary(tfjob("late", policy={"activeDeadlineSeconds": 1}, Worker=1))
    again = with_canary(with_canary(pytorchjob("again", restart="ExitCode", Master=1, Worker=1)), "Master")
    bad = with_canary(tfjob("bad", Worker=1))
    bad["metadata"]["annotations"]["trainshed.dev/restart-scope"] = "Everything"
    with FakeKubelet(second_user) as kubelet:
        for job in (late, again, bad):
            second_user.create(job)
        eventually(lambda: second_user.state("PyTorchJob", "again") == "Running")
        kubelet.end("again-worker-0", 137)
        eventually(lambda: kubelet.created.count("again-worker-0") == 2, 20)
        eventually(lambda: second_user.state("PyTorchJob", "again") == "Running", 20)
        kubelet.end("again-master-0", 1)
        for kind, name in (("PyTorchJob", "again"), ("TFJob", "late"), ("TFJob", "bad")):
            eventually(lambda kind=kind, name=name: second_user.state(kind, name) == "Failed", 20)
        eventually(lambda: second_user.events("again"))
    texts = everything(second_user, operator)
    assert [where for where, text in texts.items() if CANARY in text] == []
    jobs = [json.loads(line).get("job") for line in lines(operator)]
    assert {"kind": "TFJob", "namespace": second_user.namespace, "name": "late"} in jobs
    assert operator.stop() == 0
    assert operator.complaints() == []


def lines(operator: Operator) -> list[str]:
    """The whole lines of the log."""
    return [line for line in operator.log.read_text().splitlines(keepends=True) if line.endswith("\n")]


def refuses(user: UserClient) -> bool:
    """Return whether the policy is in force."""
    container = {"name": "c", "image": "x", "args": ["a"], "command": ["a"], "env": [{"name": "A", "value": "a"}]}
    body = {"metadata": {"name": "probe", "annotations": {"note": "a"}}, "spec": {"containers": [container]}}
    try:
        user.call("POST", f"/api/v1/namespaces/{user.namespace}/pods?dryRun=All", body)
    except Refused as refused:
        return "this will not do" in str(refused)
    return False

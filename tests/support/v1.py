"""Objects that training-operator v1 leaves in a cluster: its CRDs, its operator, and unfinished jobs."""

from __future__ import annotations

import copy

from trainshed.crd import definition
from trainshed.frameworks import FRAMEWORKS

from .jobs import KINDS
from .user_client import MERGE, UserClient

CRD, RBAC = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/rbac.authorization.k8s.io/v1"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
LABELS = {"control-plane": "kubeflow-training-operator"}
SINCE = "2026-01-01T12:00:00Z"
#: v1's status, without fields of Trainshed.
TEXT, WHOLE, TIME = (
    {"type": "string"},
    {"type": "integer", "format": "int32"},
    {"type": "string", "format": "date-time"},
)
CONDITION = dict.fromkeys(("type", "status", "reason", "message"), TEXT) | dict.fromkeys(
    ("lastUpdateTime", "lastTransitionTime"), TIME
)
TALLY = dict.fromkeys(("active", "succeeded", "failed"), WHOLE) | {"selector": TEXT}
STATUS = {
    "type": "object",
    "properties": {
        "conditions": {"type": "array", "items": {"type": "object", "properties": CONDITION}},
        "replicaStatuses": {"type": "object", "additionalProperties": {"type": "object", "properties": TALLY}},
        **dict.fromkeys(("startTime", "completionTime", "lastReconcileTime"), TIME),
    },
}
#: The rights of v1's operator: none on Leases.
RULES = (
    ("", "configmaps", "create list update watch"),
    ("", "events", "create delete get list patch update watch"),
    ("", "pods", "create delete get list patch update watch"),
    ("", "pods/exec", "create"),
    ("", "secrets", "get list update watch"),
    ("", "serviceaccounts", "create get list watch"),
    ("", "services", "create delete get list watch"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "get list update watch"),
    ("autoscaling", "horizontalpodautoscalers", "create delete get list patch update watch"),
    ("rbac.authorization.k8s.io", "roles", "create list update watch"),
    ("rbac.authorization.k8s.io", "rolebindings", "create list update watch"),
    *(("kubeflow.org", f"{kind.lower()}s", "create delete get list patch update watch") for kind in KINDS),
    *(("kubeflow.org", f"{kind.lower()}s/finalizers", "update") for kind in KINDS),
    *(("kubeflow.org", f"{kind.lower()}s/status", "get patch update") for kind in KINDS),
)


def crds() -> list[dict]:
    """Return the CRDs without rules, enums, defaults and fields of Trainshed."""
    found = [copy.deepcopy(definition(framework)) for framework in FRAMEWORKS]
    for crd in found:
        (version,) = crd["spec"]["versions"]
        version["additionalPrinterColumns"] = version["additionalPrinterColumns"][:2]
        schema = version["schema"]["openAPIV3Schema"]
        schema["properties"]["status"] = STATUS
        schema["properties"]["metadata"] = {"type": "object"}
        _loosen(schema)
    return found


def _loosen(schema: object) -> None:
    if isinstance(schema, dict):
        for word in ("x-kubernetes-validations", "enum", "maxLength", "maxProperties", "minProperties", "maxItems"):
            schema.pop(word, None)
        if schema.get("default") == {}:
            del schema["default"]
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _loosen(part)


def install(user: UserClient) -> None:
    for crd in crds():
        user.call("POST", CRD, crd)


def grant(user: UserClient, account: str) -> None:
    """Give a user the rights of v1's operator."""
    rules = [{"apiGroups": [group], "resources": [what], "verbs": verbs.split()} for group, what, verbs in RULES]
    metadata = {"name": "training-operator"}
    user.call("POST", f"{RBAC}/clusterroles", {"metadata": metadata, "rules": rules})
    _bind(user, "training-operator", {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": account})


def deploy(user: UserClient, *flags: str) -> None:
    """Create v1's Deployment, with the fields that matter here, and its service account."""
    user.make("serviceaccounts", {"metadata": {"name": "training-operator"}})
    container = {"name": "training-operator", "image": "kubeflow/training-operator:v1-0000000", "command": ["/manager"]}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"serviceAccountName": "training-operator", "containers": [container | {"args": list(flags)}]},
        },
    }
    path = f"/apis/apps/v1/namespaces/{user.namespace}/deployments"
    user.call("POST", path, {"metadata": {"name": "training-operator", "labels": LABELS}, "spec": spec})


def bind(user: UserClient, role: str, account: str) -> None:
    """Create the ClusterRoleBinding of an operator in the user's namespace."""
    _bind(user, role, {"kind": "ServiceAccount", "name": account, "namespace": user.namespace})


def _bind(user: UserClient, role: str, subject: dict) -> None:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    body = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
    user.call("POST", f"{RBAC}/clusterrolebindings", body)


def guard(user: UserClient) -> None:
    """Create v1's webhook configuration, for which no server answers."""
    service = {"namespace": user.namespace, "name": "training-operator", "path": "/validate"}
    rule = {
        "apiGroups": ["kubeflow.org"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [f"{kind.lower()}s" for kind in KINDS],
    }
    hook = {"name": "validator.pytorchjob.training-operator.kubeflow.org", "clientConfig": {"service": service}}
    hook |= {"admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail", "rules": [rule]}
    user.call("POST", WEBHOOKS, {"metadata": {"name": "validator.training-operator.kubeflow.org"}, "webhooks": [hook]})


def create_job(
    user: UserClient, job: dict, *states: str, completed: bool = False, missing: tuple[str, ...] = ()
) -> None:
    """A job of v1's, its pods and Services but for the `missing`, and conditions such as `Running` or `-Running`."""
    if not job["spec"].get("runPolicy"):
        job["spec"].pop("runPolicy", None)
    made = user.create(job)
    kind, name = job["kind"], job["metadata"]["name"]
    groups = job["spec"][KINDS[kind].field]
    suspended = (job["spec"].get("runPolicy") or {}).get("suspend")
    for role, group in {} if suspended else groups.items():
        for index in range(group["replicas"]):
            if f"{role.lower()}-{index}" not in missing:
                _member(user, made, role, index)
    _own(user, job)
    conditions = [_condition(kind, name, state) for state in states]
    status = {"conditions": conditions, "replicaStatuses": {role: {} for role in groups}}
    status |= {"lastReconcileTime": SINCE} | ({} if suspended else {"startTime": SINCE})
    status |= {"completionTime": SINCE} if completed else {}
    user.call("PATCH", user.path(kind, name, "status"), {"status": status}, MERGE)


def _member(user: UserClient, job: dict, role: str, index: int) -> None:
    kind, name = job["kind"], job["metadata"]["name"]
    group = job["spec"][KINDS[kind].field][role]
    launcher = role == "Launcher"
    labels = {
        "training.kubeflow.org/operator-name": f"{kind.lower()}-controller",
        "training.kubeflow.org/job-name": name,
        "training.kubeflow.org/replica-type": role.lower(),
    } | ({} if launcher else {"training.kubeflow.org/replica-index": str(index)})
    leads = {"training.kubeflow.org/job-role": "master"} if role in ("Master", "Chief", "Launcher") else {}
    suffix = "launcher" if launcher else f"{role.lower()}-{index}"
    metadata = {"name": f"{name}-{suffix}", "ownerReferences": [_owner(job)]}
    policy = {"ExitCode": "Never"}.get(group["restartPolicy"], group["restartPolicy"])
    spec = copy.deepcopy(group["template"]["spec"]) | {"restartPolicy": policy}
    user.make("pods", {"metadata": metadata | {"labels": labels | leads}, "spec": spec})
    if kind != "MPIJob":
        ports = [{"name": "port", "port": 2222}]
        service = {"clusterIP": "None", "selector": labels, "ports": ports}
        user.make("services", {"metadata": metadata | {"labels": labels}, "spec": service})


def _owner(job: dict) -> dict:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": job["kind"], "name": job["metadata"]["name"]}
    return owner | {"uid": job["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}


def _own(user: UserClient, job: dict) -> None:
    """Create v1's objects besides pods and Services, for an existing job: an MPIJob's ConfigMap, an autoscaler."""
    name, made = job["metadata"]["name"], user.job(job["kind"], job["metadata"]["name"])
    if job["kind"] == "MPIJob":
        labels = {"labels": {"app": name}, "ownerReferences": [_owner(made)]}
        config = {
            "hostfile": f"{name}-worker-0 slots=1\n",
            "kubexec.sh": "#!/bin/sh\n",
            "discover_hosts.sh": "#!/bin/sh",
        }
        user.make("configmaps", {"metadata": {"name": f"{name}-config"} | labels, "data": config})
        metadata = {"name": f"{name}-launcher"} | labels
        user.make("serviceaccounts", {"metadata": metadata})
        path = f"{RBAC}/namespaces/{user.namespace}"
        rule = {
            "apiGroups": [""],
            "resources": ["pods/exec"],
            "verbs": ["create"],
            "resourceNames": [f"{name}-worker-0"],
        }
        user.call("POST", f"{path}/roles", {"metadata": metadata, "rules": [rule]})
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": f"{name}-launcher"}
        subjects = [{"kind": "ServiceAccount", "name": f"{name}-launcher", "namespace": user.namespace}]
        user.call("POST", f"{path}/rolebindings", {"metadata": metadata, "roleRef": reference, "subjects": subjects})
    elif elastic := job["spec"].get("elasticPolicy"):
        target = {"apiVersion": "kubeflow.org/v1", "kind": job["kind"], "name": name}
        spec = {"scaleTargetRef": target, "minReplicas": elastic["minReplicas"], "maxReplicas": elastic["maxReplicas"]}
        metadata = {"name": name, "ownerReferences": [_owner(made)]}
        user.call("POST", scalers(user), {"metadata": metadata, "spec": spec | {"metrics": elastic["metrics"]}})


def scalers(user: UserClient) -> str:
    return f"/apis/autoscaling/v2/namespaces/{user.namespace}/horizontalpodautoscalers"


def _condition(kind: str, name: str, state: str) -> dict:
    known = state.removeprefix("-")
    condition = {"type": known, "status": str(known == state), "reason": f"{kind}{known}"}
    times = dict.fromkeys(("lastUpdateTime", "lastTransitionTime"), SINCE)
    return condition | {"message": f"{kind} {name} is {known.lower()}."} | times

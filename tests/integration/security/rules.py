"""The rules of kube-linter and Polaris, by the names that these give them, each as a question that has to be true.

Written from their documentation: https://docs.kubelinter.io/#/generated/checks and https://polaris.docs.fairwinds.com/checks.
A rule that stands under both names is written once.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .rendered import Document, Rendered

Rule = Callable[[Rendered], bool]
SECRETIVE = re.compile(r"(?i)secret|password|passwd|token|private.?key|credential")
DANGEROUS = {"ALL", "SYS_ADMIN", "NET_ADMIN", "NET_RAW", "SYS_PTRACE"}


def _every(question: Callable[[Document], object]) -> Rule:
    return lambda found: all(question(container) for container in found.containers)


def _secured(field: str, wanted: object) -> Rule:
    return lambda found: all(found.security(container, field) == wanted for container in found.containers)


def _resource(which: str, name: str) -> Rule:
    return _every(lambda container: container.get("resources", {}).get(which, {}).get(name))


def _probe_port(name: str) -> Rule:
    return lambda found: all(
        probe["httpGet"]["port"] in found.ports for known, probe in found.probes() if known == name
    )


def _budget(found: Rendered) -> bool:
    budgets = [item["spec"] for item in found.of("PodDisruptionBudget") if found.selects(item["spec"]["selector"])]
    return bool(budgets) or found.deployment["replicas"] == 1


def _may_drain(found: Rendered) -> bool:
    for budget in found.of("PodDisruptionBudget"):
        spec = budget["spec"]
        if spec.get("maxUnavailable") in (0, "0%") or spec.get("minAvailable", 0) in (
            "100%",
            found.deployment["replicas"],
        ):
            return False
    return True


def _isolated(found: Rendered) -> bool:
    return any(found.selects(policy["spec"]["podSelector"]) for policy in found.of("NetworkPolicy"))


def _peers(found: Rendered) -> bool:
    sides = [side for policy in found.of("NetworkPolicy") for side in ("ingress", "egress") if side in policy["spec"]]
    return all(
        "podSelector" not in str(policy["spec"].get(side)) for policy in found.of("NetworkPolicy") for side in sides
    )


def _account(found: Rendered) -> bool:
    return found.pod["serviceAccountName"] in {account["metadata"]["name"] for account in found.of("ServiceAccount")}


def _monitored(found: Rendered) -> bool:
    labels = [service["metadata"]["labels"].items() for service in found.of("Service")]
    wanted = [monitor["spec"]["selector"]["matchLabels"].items() for monitor in found.of("ServiceMonitor")]
    return all(any(selector <= known for known in labels) for selector in wanted)


def _image(container: Document) -> bool:
    name = container["image"].rpartition("/")[2]
    return "@sha256:" in name or (":" in name and not name.endswith(":latest"))


def _targets(found: Rendered) -> bool:
    ports = (port for service in found.of("Service") for port in service["spec"]["ports"])
    named = all(len(name) <= 15 and name.islower() for name in found.ports)
    return named and all(port["targetPort"] in found.ports for port in ports)


def _affinity(kind: str) -> Rule:
    return lambda found: found.deployment["replicas"] == 1 or kind in found.pod.get("affinity", {})


def _no_admin(found: Rendered) -> bool:
    return all(
        binding["roleRef"]["name"] != "cluster-admin" for binding in found.of("ClusterRoleBinding", "RoleBinding")
    )


def _no_wildcard(found: Rendered) -> bool:
    rules = (rule for role in found.of("Role", "ClusterRole") for rule in role["rules"])
    return not any("*" in rule[key] for rule in rules for key in ("apiGroups", "resources", "verbs"))


def _hardened(found: Rendered) -> bool:
    kinds = (found.security(container, "seccompProfile") for container in found.containers)
    return all(kind == {"type": "RuntimeDefault"} for kind in kinds)


def _drops(container: Document) -> bool:
    capabilities = container["securityContext"].get("capabilities", {})
    return capabilities.get("drop") == ["ALL"] and not DANGEROUS & set(capabilities.get("add", ()))


def _namespaced(found: Rendered) -> bool:
    kinds = ("Deployment", "ServiceAccount", "Role", "RoleBinding", "ConfigMap", "NetworkPolicy", "PodDisruptionBudget")
    return all(item["metadata"].get("namespace", "default") != "default" for item in found.of(*kinds, "Service"))


#: kube-linter's.
KUBE_LINTER: dict[str, Rule] = {
    "access-to-create-pods": lambda found: not found.grants("pods", "create"),
    "access-to-secrets": lambda found: not found.grants("secrets", "get", "list", "watch", "create", "delete", "*"),
    "cluster-admin-role-binding": _no_admin,
    "dangling-networkpolicy": lambda found: all(
        found.selects(item["spec"]["podSelector"]) for item in found.of("NetworkPolicy")
    ),
    "dangling-networkpolicypeer-podselector": _peers,
    "dangling-service": lambda found: all(found.selects(item["spec"]["selector"]) for item in found.of("Service")),
    "dangling-servicemonitor": _monitored,
    "default-service-account": lambda found: found.pod.get("serviceAccountName", "default") not in ("", "default"),
    "deprecated-service-account-field": lambda found: "serviceAccount" not in found.pod,
    "dnsconfig-options": lambda found: "dnsConfig" in found.pod,
    "drop-net-raw-capability": _every(_drops),
    "duplicate-env-var": lambda found: len(found.variables) == len({item["name"] for item in found.variables}),
    "env-var-secret": lambda found: (
        not any("value" in item and SECRETIVE.search(item["name"]) for item in found.variables)
    ),
    "exposed-services": lambda found: all(
        item["spec"].get("type", "ClusterIP") == "ClusterIP" for item in found.of("Service")
    ),
    "host-ipc": lambda found: not found.pod.get("hostIPC"),
    "host-network": lambda found: not found.pod.get("hostNetwork"),
    "host-pid": lambda found: not found.pod.get("hostPID"),
    "invalid-target-ports": _targets,
    "latest-tag": _every(_image),
    "liveness-port": _probe_port("livenessProbe"),
    "minimum-three-replicas": lambda found: found.deployment["replicas"] >= 3,
    "mismatching-selector": lambda found: found.selects(found.deployment["selector"]),
    "no-anti-affinity": _affinity("podAntiAffinity"),
    "no-liveness-probe": _every(lambda container: "livenessProbe" in container),
    "no-node-affinity": lambda found: "nodeAffinity" in found.pod.get("affinity", {}),
    "no-read-only-root-fs": _secured("readOnlyRootFilesystem", wanted=True),
    "no-readiness-probe": _every(lambda container: "readinessProbe" in container),
    "no-rolling-update-strategy": lambda found: found.deployment["strategy"]["type"] == "RollingUpdate",
    "non-existent-service-account": _account,
    "non-isolated-pod": _isolated,
    "pdb-max-unavailable": _may_drain,
    "pdb-min-available": _may_drain,
    "pdb-unhealthy-pod-eviction-policy": lambda found: all(
        item["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" for item in found.of("PodDisruptionBudget")
    ),
    "privilege-escalation-container": _secured("allowPrivilegeEscalation", wanted=False),
    "privileged-container": lambda found: not any(found.security(item, "privileged") for item in found.containers),
    "privileged-ports": lambda found: all(port > 1024 for port in found.ports.values()),
    "read-secret-from-env-var": lambda found: not any("secretKeyRef" in str(item) for item in found.variables),
    "readiness-port": _probe_port("readinessProbe"),
    "required-annotation-email": lambda found: (
        "email" in found.deployment["template"]["metadata"].get("annotations", {})
    ),
    "required-label-owner": lambda found: "owner" in found.labels,
    "run-as-non-root": _secured("runAsNonRoot", wanted=True),
    "sensitive-host-mounts": lambda found: not any("hostPath" in volume for volume in found.pod.get("volumes", ())),
    "ssh-port": lambda found: 22 not in found.ports.values(),
    "startup-port": _probe_port("startupProbe"),
    "unsafe-proc-mount": lambda found: not any(found.security(item, "procMount") for item in found.containers),
    "unsafe-sysctls": lambda found: "sysctls" not in found.pod.get("securityContext", {}),
    "unset-cpu-requirements": _resource("requests", "cpu"),
    "unset-memory-requirements": _resource("limits", "memory"),
    "use-namespace": _namespaced,
    "wildcard-in-rules": _no_wildcard,
}
#: Polaris', as far as they ask something else.
POLARIS: dict[str, Rule] = {
    "automountServiceAccountToken": lambda found: found.pod.get("automountServiceAccountToken") is False,
    "clusterrolePodExecAttach": lambda found: not found.grants("pods/exec", "create", "get"),
    "cpuLimitsMissing": _resource("limits", "cpu"),
    "deploymentMissingReplicas": lambda found: found.deployment["replicas"] > 1,
    "hostPortSet": _every(lambda container: not any("hostPort" in port for port in container.get("ports", ()))),
    "linuxHardening": _hardened,
    "memoryRequestsMissing": _resource("requests", "memory"),
    "missingPodDisruptionBudget": _budget,
    "priorityClassNotSet": lambda found: bool(found.pod.get("priorityClassName")),
    "pullPolicyNotAlways": _every(lambda container: container.get("imagePullPolicy") == "Always"),
    "runAsRootAllowed": lambda found: all(int(str(found.security(c, "runAsUser") or 0)) > 0 for c in found.containers),
    "sensitiveConfigmapContent": lambda found: (
        not any(SECRETIVE.search(key) for item in found.of("ConfigMap") for key in item["data"])
    ),
    "topologySpreadConstraint": lambda found: bool(found.pod.get("topologySpreadConstraints")),
}

"""Why a command does not do what it is asked for, and what to do or to ask for."""

from __future__ import annotations

import re

from trainshed.api.coerce import as_mapping, parse_text
from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document

#: How the API server says that RBAC does not permit a request (apiserver/pkg/endpoints/handlers/responsewriters).
DENIED = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
#: The verbs of the ClusterRole `view`.
READS = ("get", "list", "watch")
#: What to do by the reason of the refusal.
ADVICE = {
    "QuotaExceeded": "Delete jobs, or ask for a larger quota: kubectl describe quota shows what is used.",
    "NamespaceTerminating": "Choose another namespace with -n.",
    "DeniedByWebhook": "Change the job, or ask for an exception from the webhook.",
    "DeniedByPolicy": "Change the job, or ask for an exception from the policy.",
}


def sentence(message: str, reason: str) -> str:
    """Return a refusal of the API server in one line: who may not do what, and what to ask for."""
    advice = ADVICE.get(reason, "Ask for the right, or choose another namespace with -n.")
    if reason not in ADVICE and (found := DENIED.search(message)):
        resource = ".".join(part for part in (found["resource"], found["group"]) if part)
        where = f"in namespace {found['namespace']}" if found["namespace"] else "in all namespaces"
        role = "view" if found["verb"] in READS else "edit"
        advice = (
            f"Ask for the right to {found['verb']} {resource} {where}, which ClusterRole {role} has, "
            "or choose another namespace with -n."
        )
    return f"{message.rstrip('.')}. {advice}"


def kueue_decides(name: str, namespace: str, workload: Document | None) -> str:
    """Return why a job of Kueue is not suspended or resumed by hand, and how it is stopped instead."""
    found = _workload_name(workload)
    how = (
        f'kubectl patch workload {found} -n {namespace} --type merge -p \'{{"spec":{{"active":false}}}}\''
        if found
        else "Kueue has not made it yet"
    )
    return (
        f"Kueue starts and stops {name}, and takes back what others write to runPolicy.suspend. "
        f"Set spec.active of its Workload to false to stop it, and to true to let it queue again: {how}"
    )


def kueue_starts(name: str, namespace: str, workload: Document | None) -> str:
    """Return why a job that waits in a queue of Kueue is not resumed by hand, and how to let it wait if it does not."""
    if not _workload_name(workload) or as_mapping((workload or {}).get("spec")).get("active") is False:
        return kueue_decides(name, namespace, workload)
    return (
        f"Kueue starts {name} once its queue has quota for all of it: "
        f"trainshed explain {name} -n {namespace} says what it waits for"
    )


def _workload_name(workload: Document | None) -> str:
    return one_line(parse_text(as_mapping((workload or {}).get("metadata")).get("name")))

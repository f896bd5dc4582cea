"""Jobs whose pods have a service account, users with and without rights to it, and the server's responses."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from charts.rendering import Document, Release
from support import Refused, UserClient
from support.jobs import KINDS, pod_spec
from support.user_client import MERGE


@dataclass(frozen=True, slots=True)
class People:
    """Users with different rights in a namespace: all may create jobs."""

    admin: UserClient
    jobs_only: UserClient
    pods_too: UserClient
    as_builder: UserClient


def parts(*sets: str) -> tuple[list[Document], list[Document]]:
    """The policy of the chart with its binding, and the roles of people."""
    found = Release().sources(None, "crds.install=false", *sets)
    return found["service-account-policy.yaml"], found["aggregated-roles.yaml"]


def with_account(wanted: Document, account: str, *roles: str, field: str = "serviceAccountName") -> Document:
    """The same job, the pods of these roles (or of all) with a service account."""
    found = copy.deepcopy(wanted)
    for role in roles or found["spec"][KINDS[found["kind"]].field]:
        pod_spec(found, role)[field] = account
    return found


def refusal(user: UserClient, wanted: Document) -> str:
    """Return the server's refusal of a new job, beginning with the code, or "" if it is accepted. A dry run."""
    path, _, _ = user.path(wanted["kind"], "x").rpartition("/")
    try:
        user.call("POST", f"{path}?dryRun=All", wanted)
    except Refused as refused:
        return str(refused)[:2000]
    return ""


def code(user: UserClient, wanted: Document) -> int:
    """The same as a code: 201 if it lets it in."""
    return int(refusal(user, wanted)[:3] or 201)


def change(user: UserClient, wanted: Document, patch: Document) -> int:
    """Return the server's response to a change of a job: 200, or the refusal."""
    try:
        user.call("PATCH", user.path(wanted["kind"], wanted["metadata"]["name"]), patch, MERGE)
    except Refused as refused:
        return refused.code
    return 200


def pod_patch(wanted: Document, role: str, spec: Document) -> Document:
    """A patch of the pods of a role."""
    return {"spec": {KINDS[wanted["kind"]].field: {role: {"template": {"spec": spec}}}}}

"""The Events of a job, as `kubectl describe` shows them."""

from __future__ import annotations

import re
from collections import Counter

from .user_client import UserClient

#: Type, reason and message.
Line = tuple[str, str, str]


def events(user: UserClient, job: dict) -> list[dict]:
    """The Events of a job as `kubectl describe` asks for them: by kind, namespace, name and uid."""
    meta = job["metadata"]
    wanted = {"kind": job["kind"], "namespace": user.namespace, "name": meta["name"], "uid": meta["uid"]}
    selector = ",".join(f"involvedObject.{field}={value}" for field, value in wanted.items())
    return user.call("GET", f"/api/v1/namespaces/{user.namespace}/events?fieldSelector={selector}")["items"]


def event_counts(user: UserClient, job: dict) -> Counter[Line]:
    """Return how often each Event was emitted, by type, reason and message; combined messages are split by name."""
    counts: Counter[Line] = Counter()
    for event in events(user, job):
        head, _, names = event["message"].rpartition(": ")
        gathered = re.match(r"(Created|Deleted) (pod|service|PodGroup)$", head)
        messages = [f"{head}: {name}" for name in names.split(", ")] if gathered else [event["message"]]
        for message in messages:
            counts[event["type"], event["reason"], message] += event["count"]
    return counts

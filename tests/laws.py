"""Laws of a job's life, in the words of its document: which state may follow which, and who may have a pod."""

from __future__ import annotations

#: From which state, by its last true condition, which may follow in one store.
MOVES = {
    "": {"", "Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed", "Blocked"},
    "Created": {"Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed", "Blocked"},
    "Running": {"Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed", "Blocked"},
    "Restarting": {"Restarting", "Running", "Suspended", "Succeeded", "Failed", "Blocked"},
    "Blocked": {"Created", "Blocked", "Running", "Restarting", "Suspended", "Succeeded", "Failed"},
    "Suspended": {"Suspended", "Created", "Failed"},
    "Succeeded": {"Succeeded"},
    "Failed": {"Failed"},
}
#: States that exclude each other.
EXCLUSIVE = {"Running", "Restarting", "Suspended", "Succeeded", "Failed"}


def seats(document: dict, field: str) -> set[str]:
    """The names of all pods that a job may have; none while it is suspended or once it has its verdict."""
    spec, states = document["spec"], document.get("status", {}).get("conditions", [])
    over = any(state["type"] in ("Succeeded", "Failed") and state["status"] == "True" for state in states)
    if over or spec["runPolicy"].get("suspend"):
        return set()
    name = document["metadata"]["name"]
    return {
        f"{name}-{role.lower()}" if role == "Launcher" else f"{name}-{role.lower()}-{index}"
        for role, group in spec[field].items()
        for index in range(group.get("replicas", 1))
    }

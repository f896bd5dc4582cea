"""What others say about the health of a node: Kubernetes, Node Problem Detector, NVSentinel and their like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from .coerce import as_mapping, as_sequence, parse_text, parse_time
from .foreign_text import one_line
from .job import Document
from .objects import NodeProblem, NodeReport

#: The conditions that Kubernetes has on each node, apart from Ready, and one of k3s that says nothing about health.
#: What pods themselves use up is behind the pressures, and their evictions say so.
OTHERS = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "OutOfDisk", "EtcdIsVoter"})
#: Ends of the names of conditions that are good when they are True, such as the KernelReady of EKS; all others are
#: problems then, by the convention of Node Problem Detector that NVSentinel follows.
GOOD = ("Ready", "Healthy")
#: With this annotation NVSentinel says why it has cordoned a node.
QUARANTINED = "quarantineHealthEvent"
#: The effects of taints that keep pods away, and the prefix of those that Kubernetes derives from the conditions.
KEEPING, DERIVED = ("NoSchedule", "NoExecute"), "node.kubernetes.io/"
UNSCHEDULABLE = f"{DERIVED}unschedulable"
#: The most characters of a name and of a message, and the most problems and Events of a node.
MOST_NAME, MOST_MESSAGE, MOST_PROBLEMS, MOST_EVENTS = 63, 160, 8, 2


def node_report(name: str, node: Document, events: Iterable[Document]) -> NodeReport:
    """Return what a node and the Events about it say. Their texts become one line of printable characters each."""
    conditions = tuple(_conditions(node))
    found = (*_withdrawn(node, conditions), *conditions, *_taints(node))
    return NodeReport(name, (*found[:MOST_PROBLEMS], *_events(events)))


def _withdrawn(node: Document, conditions: Iterable[NodeProblem]) -> Iterator[NodeProblem]:
    """Yield that the node is cordoned, or quarantined by NVSentinel, which does that after it has set a condition."""
    spec = as_mapping(node.get("spec"))
    if spec.get("unschedulable") is not True:
        return
    if not as_mapping(as_mapping(node.get("metadata")).get("annotations")).get(QUARANTINED):
        yield NodeProblem("cordoned", None, lasting=False)
        return
    taints = [as_mapping(item) for item in as_sequence(spec.get("taints"))]
    added = (parse_time(taint.get("timeAdded")) for taint in taints if taint.get("key") == UNSCHEDULABLE)
    since = next(filter(None, added), None) or max((one.since for one in conditions if one.since), default=None)
    yield NodeProblem("quarantined", since)


def _conditions(node: Document) -> Iterator[NodeProblem]:
    for condition in map(as_mapping, as_sequence(as_mapping(node.get("status")).get("conditions"))):
        kind, status = parse_text(condition.get("type")), condition.get("status")
        bad = ("False", "Unknown") if kind == "Ready" else ("False",) if kind.endswith(GOOD) else ("True",)
        if kind and kind not in OTHERS and status in bad:
            name = "not ready" if kind == "Ready" else kind
            yield NodeProblem(_quoted(name, condition), parse_time(condition.get("lastTransitionTime")))


def _taints(node: Document) -> Iterator[NodeProblem]:
    """Yield the taints that have a time. Those of pools have none, and who tolerates them only the pod itself says."""
    for taint in map(as_mapping, as_sequence(as_mapping(node.get("spec")).get("taints"))):
        key, effect = parse_text(taint.get("key")), parse_text(taint.get("effect"))
        since = parse_time(taint.get("timeAdded"))
        if since and effect in KEEPING and not key.startswith(DERIVED):
            yield NodeProblem(f"taint {one_line(key, MOST_MESSAGE)}:{effect}", since)


def _events(events: Iterable[Document]) -> list[NodeProblem]:
    """Return the latest Events that are not Normal, each only once; NVSentinel's types are the names of its checks."""
    latest: dict[str, NodeProblem] = {}
    for event in events:
        since = _event_time(event)
        problem = NodeProblem(_quoted(parse_text(event.get("reason")), event), since, lasting=False)
        known = latest.get(problem.text)
        if since and event.get("type") != "Normal" and (known is None or known.since is None or known.since < since):
            latest[problem.text] = problem
    return sorted(latest.values(), key=lambda one: str(one.since), reverse=True)[:MOST_EVENTS]


def _event_time(event: Document) -> datetime | None:
    last = as_mapping(event.get("series")).get("lastObservedTime")
    return parse_time(last or event.get("lastTimestamp") or event.get("eventTime"))


def _quoted(name: str, said: Document) -> str:
    message = parse_text(said.get("message")) or parse_text(said.get("reason"))
    text = one_line(message, MOST_MESSAGE).strip(" ;.")
    return f"{one_line(name, MOST_NAME)}: {text}" if text else one_line(name, MOST_NAME)

"""What to do about pods that the cluster does not take: no node, no quota, no claim, or what admission refuses."""

from __future__ import annotations

import re

SCHEDULING = "No node takes the pods; the scheduler's message says why: kubectl describe nodes shows what is free."
INSUFFICIENT = "insufficient|too many pods"
#: What helps against each of the causes in a message of the scheduler, by words of it; a message may have several.
PLACING = {
    INSUFFICIENT: (
        "Request less, add nodes, or wait until other jobs end: the job starts by itself then. kubectl describe nodes "
        "shows what is free, and whether a node has such a resource at all."
    ),
    "node affinity/selector|node selector|(?<!volume )node affinity": (
        "Some nodes, or all, lack a label that nodeSelector or nodeAffinity of the template asks for, and no end of "
        "other jobs changes that: correct the template, or label a node. kubectl get nodes --show-labels shows the "
        "labels."
    ),
    r"pods?'? (anti-)?affinity": (
        "podAffinity or podAntiAffinity, of this job or of pods that run, keeps the pods away: correct it, or wait "
        "until those pods end."
    ),
    "topology spread": (
        "topologySpreadConstraints of the template permit no node: correct them, or use whenUnsatisfiable: "
        "ScheduleAnyway."
    ),
    "free ports": (
        "Another pod uses the hostPort that the template asks for: use another port, or none, or wait until that pod "
        "ends."
    ),
    "volume node affinity|volume count|persistent volumes to bind|volume topology": (
        "A volume can be used on some nodes only, or a node has too many volumes: kubectl describe pv shows where."
    ),
    r"unschedulable": "A node is cordoned: its administrator ends that with kubectl uncordon.",
    r"\{node\.kubernetes\.io/(?!unschedulable)": (
        "A node is not ready, or short of memory or disk, as its taint says: kubectl describe node. Ask the "
        "administrator."
    ),
}
#: Taints of the cluster itself have been dealt with above, or keep pods off nodes that are for no job.
TAINT, OWN_TAINT = "taint", r"taint(\(s\))? \{node(-role)?\.kubernetes\.io/"
TOLERATION = (
    "A node with a taint takes only pods whose template has a toleration for it: kubectl describe nodes shows the "
    "taints."
)
NO_CLAIM = (
    "The PersistentVolumeClaim that the message names does not exist in the namespace of the job: create it, or "
    "correct its name in the template. The job starts by itself then."
)
CLAIM = (
    "A PersistentVolumeClaim of the template is not bound, so that no node can be chosen. kubectl describe pvc says "
    "why; the job starts by itself once it is bound."
)
#: What is said of a gang, all of whose pods find room at once, or none.
GANG = (
    "The scheduler places all pods of the job at once, or none, and there is no room for all of them; its message says "
    "what is short. The job starts by itself once there is. Request less, have fewer replicas, or wait until other "
    "jobs end."
)
QUEUE_LIMIT = (
    "The queue of the gang scheduler has reached its limit or its quota, which the message names: free nodes do not "
    "help. Wait until other jobs of the queue end, request less, use another queue, or ask for a larger one."
)
#: What is said of resources that no node has at all: no other job can free them.
NOT_OFFERED = (
    "No node of the cluster offers {names}, so that no end of other jobs helps. Check the name of the resource; ask "
    "the administrator whether the device plug-in runs on the nodes that have it, and whether there is a node pool "
    "with it, which an autoscaler may have to add first."
)
#: What is said of pods that may use no node, by their selector or by the taints of nodes.
NO_SUCH_NODE = (
    "No end of other jobs helps: correct nodeSelector, nodeAffinity or tolerations of the template, or ask the "
    "administrator to label a node, or to end a cordon. kubectl get nodes --show-labels shows the labels."
)
#: What is said of a whole job that is larger than all nodes together.
BEYOND_NODES = (
    "The job never runs as a whole on these nodes, whatever else ends. Request less in the template, have fewer "
    "replicas, or add nodes."
)
#: What is said of pods that are small enough for some nodes.
FULL = (
    "The pods are not too large for the cluster: they wait for room, and start by themselves when other jobs end. "
    "kubectl describe nodes shows what runs there. To start sooner request less, or add nodes."
)
#: What the quota lacks also when nothing else runs: what the job asks for, and what is permitted.
BEYOND_QUOTA = (
    "The job alone asks for {amounts} that a ResourceQuota of the namespace permits, so it never has room. Request "
    "less in the template, have fewer replicas, or ask for a larger quota."
)
#: What admission refuses with the reason Forbidden, by words of its message.
FORBIDDEN = {
    "must specify": (
        "A ResourceQuota of the namespace demands that each container says what the message names: set it under "
        "resources of the template, also for init containers and sidecars. A LimitRange with defaults would do it for "
        "all jobs."
    ),
    "violates podsecurity": (
        "The namespace has a level of Pod Security that does not permit such pods; the message names the fields. "
        "Change securityContext and volumes of the template, or use another namespace."
    ),
    "service account|serviceaccount": (
        "The ServiceAccount that serviceAccountName of the template names does not exist in the namespace: create it, "
        "or correct the name."
    ),
    "usage per|limit to request ratio": (
        "A LimitRange of the namespace permits less, or demands more, than resources of the template say: kubectl "
        "describe limitrange shows the bounds. Stay within them."
    ),
    "priorityclass": (
        "priorityClassName of the template names a PriorityClass that does not exist: kubectl get priorityclasses "
        "shows those of the cluster."
    ),
    "runtimeclass": (
        "runtimeClassName of the template names a RuntimeClass that does not exist, or contradicts it: kubectl get "
        "runtimeclasses shows those of the cluster."
    ),
    "cannot create resource": (
        "The operator lacks the right to create pods here: ask its administrator. trainshed doctor says whether it is "
        "installed well."
    ),
}


#: What the scheduler says if no pod could make room by its end: how many nodes there are, and how many are too small.
#: It says so of a node that lacks resources only if the pod asks for more than the whole node has (noderesources.Fit).
ALL_NODES, HELPLESS = re.compile(r"0/(\d{1,6}) nodes"), re.compile(r"(\d{1,6}) preemption is not helpful")
TOO_LARGE = (
    "No node that the pods may run on is large enough for one of them, also when it is empty: no end of other jobs "
    "helps. Request less, or add larger nodes."
)


def for_placing(message: str, of_nodes: str = "") -> str:
    """Return what helps against the causes for which the scheduler finds no node; its message may have several.

    What it says of preemption, at the end, is no cause of its own. What the sizes of nodes say, `of_nodes`, is better
    known than what its message says of resources.
    """
    causes, _, preemption = message.lower().partition("preemption:")
    found = [text for words, text in PLACING.items() if re.search(words, causes)]
    if "insufficient" in causes and (of_nodes or _is_too_large(causes, preemption)):
        found[0] = of_nodes or TOO_LARGE
    if TAINT in causes and not (found and re.search(OWN_TAINT, causes)):
        found.append(TOLERATION)
    return " ".join(["No node takes the pods; the scheduler's message says why.", *found]) if found else SCHEDULING


def _is_too_large(causes: str, preemption: str) -> bool:
    """Return whether the end of other pods makes room on no node, of which some have too little."""
    nodes, helpless = ALL_NODES.search(causes), HELPLESS.search(preemption)
    return "insufficient" in causes and bool(nodes and helpless and nodes[1] == helpless[1])

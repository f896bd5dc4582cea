"""What to do about an image that cannot be pulled, by what the registry, or the way to it, has answered."""

from __future__ import annotations

import re

#: What is said if the kubelet does not say what the registry has answered.
IMAGE = (
    "The image cannot be pulled. Check its name and tag, the imagePullSecrets of the template, and whether the node "
    "reaches the registry."
)
LIMITED = (
    "The registry answers, and gives no more for a while: wait, pull with an account that may have more, or use a "
    "mirror."
)
#: The same by what the registry, or the way to it, has answered: words of the message, what is said of any pod, and of
#: one on a node whose image a replica runs on another node.
PULLS = {
    "dial tcp|no such host|i/o timeout|connection refused|x509|tls: |network is unreachable|deadline exceeded": (
        (
            "The node does not reach the registry, as the message says. Check the name of the registry in the image; "
            "if it is right, ask the administrator to look at the network of the node."
        ),
        "It does not reach the registry, as the message says.",
    ),
    r"\b40[13]\b|unauthorized|forbidden|denied|authorization failed|authentication required|no basic auth": (
        (
            "The registry answers, and refuses: check that the Secrets in imagePullSecrets of the template are of this "
            "registry, still valid, and of an account that may read the image; and its name, as many registries refuse "
            "what they do not have."
        ),
        (
            "The registry answers it, and refuses: check that the Secrets in imagePullSecrets of the template are "
            "still valid. A node that has the image already may not have asked."
        ),
    ),
    r"\b429\b|toomanyrequests|too many requests": (LIMITED, LIMITED),
    "not found|manifest unknown|name unknown": (
        "The registry answers, and does not have the image: check its name and tag.",
        (
            "The registry does not give the image any more to a node that does not have it yet, or the node asks "
            "another registry, such as a mirror."
        ),
    ),
}
#: What is said before, and without a known answer after that.
ELSEWHERE_RUNS = "{other} runs the same image, so its name is right: look at {node}. "
NO_ANSWER = "Perhaps it does not reach the registry, or has other credentials for it."
#: What is said after each of the sentences about a node.
ANOTHER_NODE = (
    "The kubelet tries again by itself, at least every 5 minutes. To use another node, let the administrator cordon "
    "this one, then run trainshed restart {job}"
)


def for_pull(message: str, node: str = "", other: str = "") -> str:
    """Return what to do about an image that cannot be pulled, by what the kubelet says of it.

    With a `node`, the replica `other` runs that image on another one.
    """
    found = (texts for words, texts in PULLS.items() if re.search(words, message.lower()))
    alone, elsewhere = next(found, (IMAGE, NO_ANSWER))
    return f"{ELSEWHERE_RUNS.format(node=node, other=other)}{elsewhere} {ANOTHER_NODE}" if node else alone

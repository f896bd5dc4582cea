"""The jobs of docs/ten-jobs.md: their manifests, the command that says why each does not run, and what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass

from docs.commands import blocks
from docs.how_to import BLOCK, TEN_JOBS

from .kubectl import PATIENCE, Kubectl

#: The namespace in which the page has them, and the image of `trainshed stacks` that the nodes have.
NAMESPACE, IMAGE = "ml", "ghcr.io/trainshed/trainshed:dev"
#: What varies from run to run: times, nodes, addresses of the same host, lines of PyTorch, suffixes of Workloads, and
#: which worker gets what is left of a quota.
VARIES = {
    r"\b\d+(s|m|h)(\d+(s|m))?\b|\b\d+ (s|min)( \d+ s)?\b": "TIME",
    r"trainshed-dev-worker2?(, trainshed-dev-worker2?)?": "NODES",
    r"\[::1\]|127\.0\.0\.1": "LOCALHOST",
    r"(\.py):\d+\)": r"\1:LINE)",
    r'worker-[01](?=" is forbidden|: running on)': "worker-N",
    r"(Workload \S+)-[0-9a-f]{5}\b": r"\1-HASH",
}
#: Those that need another program beside the operator.
GANG, QUEUE = "gang", "queue"
#: What the kubelet says of a container that had too much memory, and what if it has not learned of that in time.
OUT_OF_MEMORY, NOT_REPORTED = "was OOMKilled", "was killed by SIGKILL"


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A section of the page: manifests, applied one after the other, and the command with the output that it shows."""

    manifests: tuple[str, ...]
    command: str
    shown: str


def prepared() -> dict[str, PreparedJob]:
    """Return the jobs of the page by their names, with which the commands end."""
    found = map(_section, TEN_JOBS.read_text().split("\n## ")[1:])
    return {job.command.split()[-1]: job for job in found}


def _section(text: str) -> PreparedJob:
    manifests = tuple(body for language, body in BLOCK.findall(text) if language == "yaml")
    ((step,),) = (block.steps for block in blocks(text))
    return PreparedJob(manifests, step.command, "\n".join(step.shown))


def apply(job: PreparedJob, kubectl: Kubectl, *how: str) -> None:
    """Apply the manifests, one after the other; `replace --force` as `how` creates the objects again."""
    for text in job.manifests:
        kubectl(*(how or ("apply",)), "--filename", "-", text=text)


def prints_and_goes(job: PreparedJob, kubectl: Kubectl, kubeconfig: str) -> None:
    """Apply the manifests, and run the command until it prints what the page shows; at the end they are deleted."""
    try:
        apply(job, kubectl)
        prints_what_is_shown(job, kubectl, kubeconfig)
    finally:
        for text in reversed(job.manifests):
            kubectl("delete", "--ignore-not-found", "--filename", "-", text=text, timeout=PATIENCE)


def prints_what_is_shown(job: PreparedJob, kubectl: Kubectl, kubeconfig: str) -> None:
    """Run the command until it prints what the page shows."""
    namespace = kubectl.command[-1]
    program, *words = job.command.split()
    assert program == "trainshed"
    command = [sys.executable, "-m", program, *words, "--kubeconfig", kubeconfig, "--namespace", namespace]
    environment = os.environ | {"TRAINSHED_IMAGE": IMAGE}
    end, printed = time.monotonic() + PATIENCE, ""
    while (found := constant(printed)) != constant(job.shown) and time.monotonic() < end:
        time.sleep(1)
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=120)
        printed = done.stdout.replace(namespace, NAMESPACE) or done.stderr
        if NOT_REPORTED in printed and OUT_OF_MEMORY in job.shown:
            apply(job, kubectl, "replace", "--force")
    assert found == constant(job.shown), printed


def constant(text: str) -> str:
    """Return a text of the command without what varies."""
    for pattern, word in VARIES.items():
        text = re.sub(pattern, word, text)
    return text.strip()

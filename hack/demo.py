"""`make demo-cluster`: runs two training jobs on a cluster of nodes with real containers, and shows their logs."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import click
from rich.console import Console

from testbed import images, kind
from testbed.binaries import binary
from testbed.steps import StepFailed, fail

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMESPACE = "demo"
#: Each job's kind, name and file, whose log is worth following, and in which colour.
JOBS = (
    ("tfjob", "parameter-server", EXAMPLES / "tensorflow" / "parameter-server.yaml", "chief-0", "yellow"),
    ("pytorchjob", "ddp", EXAMPLES / "pytorch" / "ddp.yaml", "master-0", "red"),
)
LONGEST = 240

console = Console(highlight=False)


@click.group()
def demo() -> None:
    """Run two training jobs and show their logs."""


@demo.command()
@click.argument("image")
def prepare(image: str) -> None:
    """Start the cluster, with the operator's image and those images of the jobs that the cluster cannot pull."""
    kind.up(image, images.named("\n".join(file.read_text() for _, _, file, *_ in JOBS)))


@demo.command()
def run() -> None:
    """Run both jobs, show their logs side by side, and print how they ended."""
    kubeconfig = kind.kubeconfig()
    kubectl = [str(binary("kube", "kubectl")), "--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE]
    quiet(kubectl, "delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait")
    quiet(kubectl, "create", "namespace", NAMESPACE)
    for _, _, file, *_ in JOBS:
        console.print(f"$ kubectl apply -f {file.relative_to(EXAMPLES.parent)}", style="bold")
        quiet(kubectl, "apply", "-f", str(file))
    for _, name, _, speaker, colour in JOBS:
        threading.Thread(target=follow, args=(kubectl, f"{name}-{speaker}", colour), daemon=True).start()
    ends = wait(kubectl)
    for kind_, name, *_ in JOBS:
        console.print(f"\n$ kubectl describe {kind_} {name}   (its events)", style="bold")
        show(kubectl, "events", "--for", f"{kind_}/{name}")
    console.print("\n$ kubectl get tfjobs,pytorchjobs,pods -o wide", style="bold")
    show(kubectl, "get", "tfjobs,pytorchjobs", "-o", "wide")
    show(kubectl, "get", "pods")
    well = all(end == "Succeeded" for end in ends.values())
    console.print("\nBoth jobs have trained." if well else f"\nNot well: {ends}", style="bold")
    console.print(f"Look around: kubectl --kubeconfig {kubeconfig} -n {NAMESPACE} get all; make cluster-down ends it.")
    sys.exit(0 if well else 1)


def wait(kubectl: list[str]) -> dict[str, str]:
    """Return the last condition of each job, which is not a terminal one if the time limit has passed."""
    end = time.monotonic() + LONGEST
    states: dict[str, str] = {}
    while time.monotonic() < end:
        for kind_, name, *_ in JOBS:
            state = output(kubectl, "get", kind_, name, "-o", "jsonpath={.status.conditions[-1:].type}")
            if state and states.get(name) != state:
                console.print(f"--- {kind_} {name} is {state}", style="bold cyan")
                states[name] = state
        if all(states.get(job[1]) in ("Succeeded", "Failed") for job in JOBS):
            break
        time.sleep(0.5)
    return states


def follow(kubectl: list[str], pod: str, colour: str) -> None:
    """Print a pod's log as it comes."""
    while True:
        command = [*kubectl, "logs", "-f", pod]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as log:
            for line in log.stdout or ():
                console.print(f"[{colour}]{pod:26}[/] {line.rstrip()}", soft_wrap=True)
        if log.returncode == 0:
            return
        time.sleep(1)


def output(kubectl: list[str], *words: str) -> str:
    """Return the output of a command."""
    return subprocess.run([*kubectl, *words], check=False, capture_output=True, text=True).stdout


def show(kubectl: list[str], *words: str) -> None:
    """Run a command and show its output."""
    subprocess.run([*kubectl, *words], check=False)


def quiet(kubectl: list[str], *words: str) -> None:
    """Run a command that must work."""
    subprocess.run([*kubectl, *words], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    try:
        demo(standalone_mode=False)
    except StepFailed as error:
        sys.exit(fail(error))

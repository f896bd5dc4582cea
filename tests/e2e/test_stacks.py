"""`trainshed stacks` and the page find the rank that joins no collective, with nothing but Python in the image."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, expect

from support import UserClient
from support.browsing import Ui, Visitor, chromium, screenshots
from support.jobs import pod_spec, pytorchjob
from support.kubectl import Kubectl
from support.people import Person
from support.user_client import eventually
from testbed.images import PYTORCH

from .conftest import PATIENCE

IMAGE = "ghcr.io/trainshed/trainshed:dev"
#: All ranks join one collective; the last one loads data instead of joining the second.
PROGRAM = """
import os, time, torch, torch.distributed as dist
def load():
    while True:
        time.sleep(1)
def train():
    if dist.get_rank() == dist.get_world_size() - 1:
        load()
    dist.all_reduce(torch.ones(1))
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
print("joined", flush=True)
train()
"""


def stacks(kubeconfig: str, namespace: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "trainshed", "stacks", "hangs", "--kubeconfig", kubeconfig, "-n", namespace)
    return subprocess.run((*command, "--image", IMAGE, *words), capture_output=True, text=True, check=False)


@pytest.fixture
def hanging(user: UserClient, kubectl: Kubectl) -> None:
    """A job of three ranks, of which two wait in a collective; their containers run as another user than root."""
    job = pytorchjob("hangs", Master=1, Worker=2)
    for role in ("Master", "Worker"):
        pod_spec(job, role)["containers"][0] |= {"image": PYTORCH, "command": ["python", "-c", PROGRAM]}
        pod_spec(job, role).update({"securityContext": {"runAsUser": 1000}, "terminationGracePeriodSeconds": 1})
    user.create(job)
    eventually(lambda: user.job("PyTorchJob", "hangs").get("status", {}).get("ready") == "3/3", PATIENCE)
    for pod in ("hangs-master-0", "hangs-worker-0", "hangs-worker-1"):
        eventually(lambda pod=pod: "joined" in kubectl("logs", pod), PATIENCE)


@pytest.fixture
def ui(kubeconfig: str, user: UserClient) -> Iterator[Ui]:
    """The page of who may do everything."""
    found = Ui.start(Person(Path(kubeconfig), user.namespace), "--allow-actions")
    yield found
    found.stop()


def read_by_a_click(browser: Browser, ui: Ui, path: str) -> None:
    """Read the stacks on the page of the job: it names the rank that does not join, and shows where that is."""
    visitor = Visitor(browser.new_context())
    page = visitor.open(ui.link)
    page.goto(urljoin(ui.link, path))
    page.get_by_role("link", name="Stacks", exact=True).click()
    page.get_by_role("button", name="Read the stacks of hangs").click()
    expect(page.locator("#stacks-title")).to_contain_text("ago")
    expect(page.locator("#live [role=status]")).to_contain_text("2 ranks are in all_reduce, worker-1 is in load.")
    late = page.locator(".stack", has_text="1 rank: worker-1")
    expect(late.locator("pre").first).to_contain_text("load (")
    expect(page.locator(".stack", has_text="2 ranks: master-0, worker-0")).to_contain_text("wait for all others")
    screenshots(page, "stacks-on-kind")
    visitor.leave()
    assert visitor.complaints == []


def test_the_rank_that_hangs_is_named(kubeconfig: str, user: UserClient, kubectl: Kubectl, hanging, ui: Ui):
    done = stacks(kubeconfig, user.namespace)
    assert done.returncode == 0, done.stderr
    headline, *others = done.stdout.splitlines()
    assert "2 ranks are in all_reduce, worker-1 is in load. The others may be waiting for worker-1." in headline
    assert "2 ranks: master-0, worker-0" in others
    with chromium() as browser:
        read_by_a_click(browser, ui, f"/jobs/{user.namespace}/pytorchjob/hangs")
    assert user.state("PyTorchJob", "hangs") == "Running"
    kubectl("label", "namespace", user.namespace, "pod-security.kubernetes.io/enforce=baseline")
    refused = stacks(kubeconfig, user.namespace)
    assert refused.returncode == 1
    assert "The namespace does not permit the capability SYS_PTRACE" in refused.stderr

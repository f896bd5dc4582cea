"""One Service for a job on real nodes: each pod finds its peer by the DNS server of the cluster, under every name."""

from __future__ import annotations

import json
from collections.abc import Callable

from support import UserClient
from support.jobs import pod_spec, tfjob
from support.pods import names
from support.user_client import eventually
from testbed.images import PYTHON

from .conftest import PATIENCE

JOB = "resolves"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
#: Prints the pod's host name, its search domains, and the address of its peer: by v1's short name, by the short name
#: with the job, and by the name in TF_CONFIG. The peer may not be published yet.
PROGRAM = """
import json, os, socket, time

def address(name):
    for _ in range(120):
        try:
            return socket.gethostbyname(name)
        except OSError:
            time.sleep(1)
    return f"{name} does not resolve"

config = json.loads(os.environ["TF_CONFIG"])
other = 1 - config["task"]["index"]
peer = f"resolves-worker-{other}"
names = [peer, f"{peer}.resolves", config["cluster"]["worker"][other].rpartition(":")[0]]
with open("/etc/resolv.conf") as file:
    searches = next(line.split()[1:] for line in file if line.startswith("search"))
found = {"host": socket.gethostname(), "searches": searches, "names": names, "addresses": [address(n) for n in names]}
print(json.dumps(found), flush=True)
time.sleep(3600)
"""


def a_job() -> dict:
    """Two workers that look for each other, and then wait."""
    job = tfjob(JOB, Worker=2)
    job["metadata"]["annotations"] = {"trainshed.dev/services": "Job"}
    spec = pod_spec(job, "Worker")
    spec["terminationGracePeriodSeconds"] = 1
    command = ["python3", "-c", PROGRAM]
    spec["containers"][0] |= {"image": PYTHON, "command": command, "imagePullPolicy": "IfNotPresent"}
    return job


def test_pods_find_their_peers_by_the_one_service_of_the_job(kubectl: Callable[..., str], user: UserClient) -> None:
    user.create(a_job())
    eventually(lambda: [pod["status"]["phase"] for pod in user.pods()] == ["Running"] * 2, PATIENCE)
    for index in range(2):
        own, peer = f"{JOB}-worker-{index}", f"{JOB}-worker-{1 - index}"
        printed = eventually(lambda pod=own: kubectl("logs", pod), PATIENCE, every=2)
        print(printed)
        found = json.loads(printed)
        assert found["host"] == own
        assert f"{JOB}.{user.namespace}.svc.cluster.local" in found["searches"]
        assert found["names"] == [peer, f"{peer}.{JOB}", f"{peer}.{JOB}.{user.namespace}.svc"]
        assert found["addresses"] == [user.pod(peer)["status"]["podIP"]] * 3
    assert names(user.core("services")) == [JOB]
    slices = user.call("GET", SLICES.format(user.namespace))["items"]
    assert [len(item["endpoints"]) for item in slices] == [2]

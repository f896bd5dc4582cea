"""From 0.1 to this version and back, by the commands of docs/operations.md: no pod is restarted, and all jobs end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from docs.commands import ROOT, Block, Step, blocks
from docs.session import Session
from support import FakeKubelet, UserClient, oldest
from support.fake_kubelet import NODE
from support.jobs import KINDS, job
from support.log_server import LogServer
from support.pods import names
from support.release import HOME, NAME
from support.user_client import Refused, eventually
from testbed.binaries import binary
from testbed.control_plane import ControlPlane

from .rolled import RolledReplicas

PAGE = ROOT / "docs" / "operations.md"
WITHIN = 300
ROLES = {"TFJob": ("Chief", "Worker"), "MPIJob": ("Launcher", "Worker"), "JAXJob": ("Worker",)}
INSTALL = {
    "helm": (f"helm install {NAME} charts/trainshed --namespace {HOME} --create-namespace",),
    "kubectl": ("kubectl apply --server-side -f crds/", "kubectl apply -k manifests/"),
}
MEASURED = ("PyTorchJob", "measured")
#: What this version's chart is given besides: progress, whose fields 0.1 does not know.
MORE = " --set progress.logs.enabled=true"
#: Two lives of six jobs under two versions take minutes.
pytestmark = pytest.mark.long


def fields(root: Path, kind: str) -> dict:
    """The fields of the status in the CRD of a kind."""
    crd = yaml.load((root / "crds" / f"kubeflow.org_{kind.lower()}s.yaml").read_text(), Loader=yaml.CSafeLoader)
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]


class Cluster:
    """A control plane on which 0.1 is installed in one of two ways; the pods of a user's namespace run."""

    def __init__(self, plane: ControlPlane, folder: Path, way: str) -> None:
        self.older = oldest.checkout(folder)
        self.user = UserClient.somewhere(plane.kubeconfig)
        self.replicas = RolledReplicas(plane, folder)
        self.way = way
        self._folder, self._plane = folder, plane
        self.run(self.older, *INSTALL[way])
        self.replicas.roll(self.older / "operator")

    def run(self, root: Path, *commands: str) -> None:
        """Run commands in the root of a checkout."""
        folder = self._folder / f"shell-{sum(1 for _ in self._folder.glob('shell-*'))}"
        folder.mkdir()
        programs = (binary("kube", "kubectl"), binary("helm4", "helm"))
        session = Session(folder, self._plane.kubeconfig, "default", programs, root=root)
        session.run(Block(frozenset(), "", tuple(map(Step, commands))))

    def change(self, what: str, root: Path, more: str = "") -> None:
        """Do what the page says, and replace the replicas of the operator; no pod of a job is another one after it."""
        (block,) = (one for one in blocks(PAGE.read_text()) if one.needs == {what, self.way})
        before = self.lives()
        self.run(root, *(step.command + (more if self.way == "helm" else "") for step in block.steps))
        self.replicas.roll(root / "operator")
        self.acts(what)
        assert self.lives() == before
        self.nothing_is_stuck()

    def acts(self, name: str) -> None:
        """Return once a new job runs, and it has been deleted with its pods."""
        self.user.create(job("TFJob", name, Worker=1))
        eventually(lambda: self.user.state("TFJob", name) == "Running", WITHIN)
        self.user.delete_job("TFJob", name)
        eventually(lambda: not self.user.pods(name), WITHIN)

    def lives(self) -> dict[str, tuple[str, int]]:
        """For each pod its uid, and how often its container was started again."""
        return {
            pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
            for pod in self.user.pods()
        }

    def begin(self, name: str) -> None:
        """Create a job of each kind with two pods; return once they run."""
        for kind in KINDS:
            roles = ROLES.get(kind, ("Master", "Worker"))
            numbers = dict.fromkeys(roles, 2 // len(roles))
            self.user.create(job(kind, f"{name}-{kind.lower()}", restart="ExitCode", **numbers))
        eventually(lambda: self.states(name) == {"Running"}, WITHIN, every=0.5)

    def states(self, name: str) -> set[str]:
        """The states of the jobs that were begun with this name."""
        return {self.user.state(kind, f"{name}-{kind.lower()}") for kind in KINDS}

    def finish(self, name: str, kubelet: FakeKubelet) -> None:
        """Let the pods of these jobs succeed; return once the jobs have, without a restart; they are deleted."""
        for pod in self.user.pods():
            if pod["metadata"]["name"].startswith(f"{name}-"):
                kubelet.end(pod["metadata"]["name"], 0)
        eventually(lambda: self.states(name) == {"Succeeded"}, WITHIN, every=0.5)
        for kind in KINDS:
            assert not self.user.job(kind, f"{name}-{kind.lower()}")["status"].get("totalRestarts")
            self.user.delete_job(kind, f"{name}-{kind.lower()}")
        left = lambda: [pod for pod in names(self.user.pods()) if pod.startswith(f"{name}-")]  # noqa: E731
        eventually(lambda: not left(), WITHIN, every=0.5)

    def measure(self) -> None:
        """Create a job whose progress this version follows in its log; return once it runs."""
        self.user.create(followed(MEASURED[1]))
        eventually(lambda: self.user.state(*MEASURED) == "Running", WITHIN)

    def restart(self, kubelet: FakeKubelet, number: int) -> None:
        """Let a worker of that job fail; return once the job has been restarted for the `number`th time, and runs."""
        kubelet.end(f"{MEASURED[1]}-worker-0", 137)
        status = lambda: self.user.job(*MEASURED)["status"]  # noqa: E731
        eventually(lambda: status()["totalRestarts"] == number and status()["state"] == "Running", WITHIN, every=0.5)

    def newer(self, kind: str, name: str) -> dict:
        """The fields of a job's status that 0.1 does not know."""
        status = self.user.job(kind, name)["status"]
        return {key: value for key, value in status.items() if key not in fields(self.older, kind)}

    def nothing_is_stuck(self) -> None:
        """Nothing waits to be deleted, there is one Lease, no webhook, and each binding of a policy has its policy."""
        call = self.user.call
        for path in ("/api/v1/pods", "/api/v1/services", "/api/v1/configmaps", "/api/v1/namespaces"):
            assert [one for one in call("GET", path)["items"] if "deletionTimestamp" in one["metadata"]] == []
        leases = call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases")["items"]
        assert [one["metadata"]["name"] for one in leases] == [NAME]
        group = "/apis/admissionregistration.k8s.io/v1"
        for which in ("validating", "mutating"):
            assert call("GET", f"{group}/{which}webhookconfigurations")["items"] == []
        policies = {one["metadata"]["name"] for one in call("GET", f"{group}/validatingadmissionpolicies")["items"]}
        bindings = call("GET", f"{group}/validatingadmissionpolicybindings")["items"]
        assert {one["spec"]["policyName"] for one in bindings} == policies


def followed(name: str) -> dict:
    """Return a job with an annotation that 0.1 does not know."""
    document = job(MEASURED[0], name, restart="ExitCode", Master=1, Worker=1)
    document["metadata"]["annotations"] = {"trainshed.dev/progress": "Logs"}
    return document


@pytest.fixture(params=INSTALL)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """An empty control plane, on which 0.1 runs."""
    with ControlPlane(tmp_path / "plane", controllers=True) as plane:
        made = Cluster(plane, tmp_path, request.param)
        try:
            yield made
        finally:
            made.replicas.kill()


def test_jobs_of_all_kinds_do_not_mind_an_upgrade_from_0_1_and_a_downgrade(cluster: Cluster) -> None:
    user, helm = cluster.user, cluster.way == "helm"
    say = lambda _pod, number: f"{number + 10}/100 [00:01<00:09, 1.0it/s, loss=0.5]\n"  # noqa: E731
    with LogServer.start(user, NODE, say, 0.5), FakeKubelet(user) as kubelet:
        cluster.begin("first")
        cluster.begin("long")
        cluster.change("upgrade", ROOT, MORE)
        cluster.finish("first", kubelet)
        cluster.measure()
        cluster.begin("newer")
        cluster.restart(kubelet, 1)
        eventually(lambda: ("trainerStatus" in cluster.newer(*MEASURED)) is helm, WITHIN, every=0.5)

        cluster.change("downgrade", cluster.older)
        known, (restart,) = cluster.newer(*MEASURED), user.job(*MEASURED)["status"]["recentRestarts"]
        assert {"timeSpent"} <= known.keys()
        with pytest.raises(Refused, match="unknown annotation"):
            user.create(followed("refused"))
        user.patch_job(*MEASURED, {"metadata": {"labels": {"team": "a"}}})
        cluster.restart(kubelet, 2)
        assert cluster.newer(*MEASURED) == known
        # The list is written as a whole, and 0.1 does not know these fields of its items.
        lost = {"totalRunningSeconds", "lostWorkSeconds"}
        kept = {key: value for key, value in restart.items() if key not in lost}
        assert user.job(*MEASURED)["status"]["recentRestarts"][0] == kept
        cluster.finish("newer", kubelet)

        cluster.change("upgrade", ROOT, MORE + ",crds.install=true")
        cluster.restart(kubelet, 3)
        eventually(lambda: cluster.newer(*MEASURED) != known, WITHIN, every=0.5)
        if helm:
            cluster.change("rollback", cluster.older)
            assert cluster.newer(*MEASURED) == {}
        cluster.finish("long", kubelet)
    cluster.replicas.end()

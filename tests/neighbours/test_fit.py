"""Random pods: what a plan says of nodes, quotas and limits is what the real kube-scheduler and API server do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from support import gang_schedulers
from support.gang_schedulers import GATE, SERVED
from support.user_client import MERGE, Refused, UserClient, eventually
from trainshed.client.http import HttpTransport
from trainshed.client.kubeconfig import find_credentials
from trainshed.client.node_reader import read_nodes, read_used, with_used
from trainshed.client.transport import RestClient
from trainshed.fit import limit_ranges, packing, quotas
from trainshed.fit.assessment import BAD, Fit
from trainshed.fit.demands import RoleDemand

from .conftest import Bed

NAMED = {"key": "metadata.name", "operator": "In", "values": ["n0"]}
NODES, PODS = "/api/v1/nodes", 30
#: The random pods of `make test`, and those of `make test-neighbours`.
ROUNDS = (0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6)))


@pytest.fixture(scope="module")
def feature_gates() -> tuple[str, ...]:
    return GATE, SERVED


@pytest.fixture
def user(bed: Bed) -> UserClient:
    user = UserClient.somewhere(bed.kubeconfig)
    eventually(lambda: exists(user, "serviceaccounts/default"), 30)
    return user


@pytest.fixture(scope="module")
def scheduler(bed: Bed) -> Iterator[None]:
    with gang_schedulers.kubernetes(bed.plane, bed.folder / "scheduler"):
        yield


class Choice(Random):
    """Random parts of pods and nodes."""

    def of(self, **values: Sequence[str]) -> dict[str, str]:
        """A value of each of some of these."""
        found = {name.replace("gpu", "nvidia.com/gpu"): self.choice(found) for name, found in values.items()}
        return {name: value for name, value in found.items() if self.random() < 0.5}

    def some(self, share: float, **fields: object) -> dict:
        """These fields, or none."""
        return fields if self.random() < share else {}

    def container(self, name: str) -> dict:
        found = self.of(cpu=("250m", "1", "3"), memory=("512Mi", "2Gi"), gpu=("1", "2"))
        asked = {name: value for name, value in found.items() if "/" in name or self.random() < 0.8}
        more = {name: value for name, value in self.of(cpu="4", memory=("3Gi",)).items() if name not in asked}
        least = self.some(0.5, requests=self.of(cpu=("100m", "250m"), memory=("256Mi",)) | more)
        ports = self.some(0.2, ports=[{"containerPort": 80, "hostPort": self.choice((80, 81))}])
        return {"name": name, "image": "a", "resources": {"limits": asked, **least}, **ports}

    def pod(self) -> dict:
        init, beside = self.container("i") | self.some(0.5, restartPolicy="Always"), self.container("b")
        for other in (init, beside):
            other.pop("ports", None)  # two containers cannot have the same one
        return {
            "containers": [self.container("a"), beside][: self.choice((1, 1, 2))],
            **self.some(0.3, initContainers=[init]),
            **self.some(0.3, activeDeadlineSeconds=5),
            **self.some(0.3, resources={"requests": {"cpu": "9"}, "limits": {"cpu": "9"}}),
        }

    def placed(self) -> dict:
        """A pod that chooses nodes."""
        of_gpu = {"key": "gpu", **self.choice(({"operator": "Exists"}, {"value": "a"}, {"effect": "NoExecute"}))}
        terms = [{"matchExpressions": [self.expression()]}, {"matchFields": [NAMED]}][: self.choice((1, 2))]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        chosen = {key: value for key, value in self.pod().items() if key != "resources"}
        return chosen | {
            **self.some(0.6, tolerations=[self.choice(({"operator": "Exists"}, of_gpu))]),
            **self.some(0.3, nodeSelector={"zone": self.choice("12")}),
            **self.some(0.6, affinity={"nodeAffinity": required}),
        }

    def expression(self) -> dict:
        operator = self.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        values = {"values": ["1", "2"][: 1 if operator in ("Gt", "Lt") else 2]} if "Exist" not in operator else {}
        return {"key": self.choice(("zone", "rank")), "operator": operator, **values}


def exists(user: UserClient, path: str) -> dict | None:
    try:
        return user.call("GET", f"/api/v1/namespaces/{user.namespace}/{path}")
    except Refused:
        return None


async def room(bed: Bed) -> list[packing.RoomOfNode]:
    rest = RestClient(HttpTransport(find_credentials(str(bed.kubeconfig), "")))
    try:
        return with_used(await read_nodes(rest), await read_used(rest))
    finally:
        await rest.close()


def scheduled(user: UserClient, name: str) -> str:
    """What the scheduler has decided: a node, or why there is none."""
    pod = exists(user, f"pods/{name}") or {}
    found = [item for item in pod.get("status", {}).get("conditions", ()) if item["type"] == "PodScheduled"]
    return found[0].get("message") or pod["spec"]["nodeName"] if found else ""


@pytest.mark.parametrize("seed", ROUNDS)
@pytest.mark.usefixtures("scheduler")
def test_a_pod_has_room_if_the_scheduler_finds_a_node_for_it(bed, user, seed):
    choice, nodes = Choice(seed), []
    for number in range(choice.randint(1, 4)):
        path = f"{NODES}/n{number}"
        effects = choice.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        taints = choice.some(0.4, taints=[{"key": "gpu", "value": choice.choice("ab"), "effect": effects}]) or {
            "taints": []
        }
        spec = taints | choice.some(0.1, unschedulable=True)
        labels = choice.of(zone="123", rank="123")
        user.call("POST", NODES, {"metadata": {"name": f"n{number}", "labels": labels}, "spec": spec})
        nodes.append(path)
        user.call("PATCH", path, {"spec": taints}, MERGE)  # without that of a node that is not ready
        amounts = {"cpu": "4", "memory": choice.choice(("1Gi", "8Gi")), "pods": choice.choice(("1", "9"))}
        amounts |= choice.of(gpu=("1", "4"))
        user.call("PATCH", f"{path}/status", {"status": {"allocatable": amounts, "capacity": amounts}}, MERGE)
    for name in (f"p{number}" for number in range(PODS)):
        before = asyncio.run(room(bed))
        pods = f"/api/v1/namespaces/{user.namespace}/pods"
        pod = user.call("POST", pods, {"metadata": {"name": name}, "spec": choice.placed()})
        (found, *_), _ = packing.assess([RoleDemand("Worker", (name,), pod["spec"], 0)], before)
        decided = eventually(lambda name=name: scheduled(user, name), 20)
        assert (found.fit is Fit.OK) == (" " not in decided), (json.dumps(pod["spec"]), decided, found.message)
        if " " in decided or choice.random() < 0.7:
            user.call("DELETE", f"{pods}/{name}?gracePeriodSeconds=0")
    for path in nodes:
        user.call("DELETE", path)


@pytest.mark.parametrize("seed", ROUNDS)
def test_a_pod_is_within_quotas_and_limits_if_the_api_server_accepts_it(user, seed):
    choice, where = Choice(seed), f"/api/v1/namespaces/{user.namespace}"
    kind = ("Container", "Pod")[seed % 2]
    given = choice.some(0.6, default={"cpu": "2"}) | choice.some(0.6, defaultRequest={"cpu": "1"})
    item = {"type": kind, **choice.some(0.6, max={"cpu": "3"}), **choice.some(0.3, min={"cpu": "200m"})}
    item |= choice.some(0.3, maxLimitRequestRatio={"cpu": "3"}) | (given if kind == "Container" else {})
    limits = user.call("POST", f"{where}/limitranges", {"metadata": {"name": "r"}, "spec": {"limits": [item]}})
    names = {
        "requests.cpu": "24",
        "limits.cpu": "39",
        "memory": ("1Gi", "4Gi"),
        "pods": "01",
        "limits.memory": ("2Gi",),
    }
    hard = choice.of(**names) or {"requests.nvidia.com/gpu": "1"}
    scope = choice.choice(((), ("NotTerminating",), ("NotBestEffort",)))
    user.call("POST", f"{where}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard, "scopes": scope}})
    stored = eventually(lambda: (found := exists(user, "resourcequotas/q")) and "used" in found["status"] and found, 30)
    bounds, verdicts = limit_ranges.bounds([limits]), set[bool]()
    for _ in range(PODS * 3):
        spec = choice.pod()
        demand = RoleDemand("Worker", ("x",), limit_ranges.defaulted(spec, bounds))
        found = [*limit_ranges.assess(bounds, demand), *quotas.assess([quotas.quota(stored)], [demand], {})[0]]
        said = [one.message for one in found if one.fit in BAD]
        try:
            user.call("POST", f"{where}/pods?dryRun=All", {"metadata": {"name": "x"}, "spec": spec})
            refused = ""
        except Refused as error:
            refused = str(error)
        assert bool(said) == bool(refused), (json.dumps(spec), refused, said)
        verdicts.add(bool(said))
    assert verdicts, "nothing was compared"

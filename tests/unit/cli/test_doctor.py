"""`trainshed doctor` and `stacks` take no Deployment of another user for the operator."""

from __future__ import annotations

import json
import sys
import tracemalloc
from datetime import UTC, datetime

import pytest

from trainshed import controller
from trainshed.cli.connection import Cluster
from trainshed.cli.installation import examine, find_installed
from trainshed.cli.stacks import image_of_operator
from trainshed.client.job_reader import JobReader
from trainshed.client.transport import Answer, RestClient
from trainshed.controller.serving_certificates import renewed
from trainshed.stack_dump import IMAGE

LEASE = {"spec": {"holderIdentity": "pod-a", "renewTime": "2020-01-01T12:00:00Z", "leaseDurationSeconds": 2**31 - 1}}
SUBJECT = {"kind": "ServiceAccount", "namespace": "sys", "name": "trainshed"}
BINDING = {"metadata": {"name": "trainshed"}, "roleRef": {"name": "trainshed"}, "subjects": [SUBJECT]}
ELSEWHERE = "--lease-namespace=../../../../api/v1/namespaces/victim/services/web:80/proxy"


CORE = "/api/v1/namespaces/sys"


def deployed(namespace: str, *flags: str, ready: int = 1, **fields: object) -> dict:
    container = {"image": "trainshed", "args": list(flags), **fields}
    return {
        "metadata": {"name": "op", "namespace": namespace, "labels": {"app.kubernetes.io/name": "trainshed"}},
        "spec": {"replicas": 1, "template": {"spec": {"serviceAccountName": "trainshed", "containers": [container]}}},
        "status": {"readyReplicas": ready},
    }


class ApiServer:
    """A transport to an API server with these Deployments and ClusterRoleBindings, None if they may not be listed."""

    def __init__(self, deployments: list[dict], bindings: list[dict] | None) -> None:
        self.deployments, self.bindings = deployments, bindings
        self.leases: list[str] = []
        self.endpoint: dict[str, Answer] = {}

    async def exchange(self, request) -> Answer:
        path = request.path
        if path.endswith("/deployments"):
            return self._page(request.query)
        if path.endswith("/clusterrolebindings"):
            body = {"metadata": {}, "items": self.bindings}
            return Answer(200, json.dumps(body).encode()) if self.bindings is not None else Answer(403)
        if path.endswith("/op"):
            namespace = path.split("/")[-3]
            return Answer(
                200, json.dumps(next(d for d in self.deployments if d["metadata"]["namespace"] == namespace)).encode()
            )
        if "leases" in path:
            self.leases.append(path)
            return Answer(200, json.dumps(LEASE).encode())
        if path in self.endpoint:
            return self.endpoint[path]
        known = {"/version": {"gitVersion": "v1.33.0"}, "/apis": {"groups": []}}
        return Answer(200, json.dumps(known[path]).encode()) if path in known else Answer(404)

    def _page(self, query) -> Answer:
        number = int(query.get("continue", 0))
        following = str(number + 1) if number + 1 < len(self.deployments) else ""
        items = self.deployments[number : number + 1]
        return Answer(200, json.dumps({"metadata": {"continue": following}, "items": items}).encode())


async def said(server: ApiServer) -> dict[str, list[str]]:
    """What is said about the operator, by the verdict."""
    rest = RestClient(server)
    found: dict[str, list[str]] = {}
    async for one in examine(Cluster(JobReader(rest), "ml", rest), "1.0"):
        if one.part in ("Operator", "Leader", "Progress"):
            found.setdefault(str(one.verdict), []).append(f"{one.part} {one.message}")
    return found


FORGED = deployed("a-tenant", ELSEWHERE, "--gang-scheduler-name=volcano", ready=0)
OWN = deployed("sys")


@pytest.mark.parametrize(
    ("bindings", "leases", "sentence"),
    [
        ([BINDING], 1, "OK Operator Deployment sys/op: 1 of 1 replica is ready"),
        (
            [],
            0,
            "WARNING Operator no ClusterRoleBinding of Deployment a-tenant/op is known",
        ),
        (None, 0, "UNKNOWN Operator you are not permitted to look: ask for the right to list clusterrolebindings"),
    ],
)
async def test_a_deployment_that_any_user_may_have_created_fails_nothing(bindings, leases, sentence):
    server = ApiServer([FORGED, OWN], bindings)
    found = await said(server)
    assert "FAILED" not in found
    assert any(f"{verdict} {text}".startswith(sentence) for verdict, texts in found.items() for text in texts), found
    assert server.leases == ["/apis/coordination.k8s.io/v1/namespaces/sys/leases/trainshed"] * leases
    installed = await find_installed(RestClient(server))
    assert installed.settings is None or not installed.settings.job_defaults.gang_scheduler


@pytest.mark.parametrize(
    "flag",
    [
        ELSEWHERE,
        "--lease-name=../../../x",
        "--lease-name=a/b",
        "--lease-namespace=a.b",
        "--progress-server=a/b.../secrets/c:1",
    ],
)
async def test_flags_choose_no_other_path_than_that_of_a_lease(flag):
    server = ApiServer([deployed("a-tenant", flag)], [])
    found = await said(server)
    assert server.leases == []
    assert found["UNKNOWN"][0].startswith("Leader the operator has flags that trainshed here does not know")


async def test_the_only_deployment_is_taken_for_that_of_an_operator_of_single_namespaces():
    server = ApiServer([deployed("sys", "--lease-name=own")], [])
    found = await said(server)
    assert server.leases == ["/apis/coordination.k8s.io/v1/namespaces/sys/leases/own"]
    assert "FAILED" not in found
    found = await said(ApiServer([deployed("sys", ready=0)], []))
    assert "so that no job is started" in found["FAILED"][0]


PORTS = Answer(200, json.dumps({"spec": {"ports": [{"port": 10443}]}}).encode())


@pytest.mark.parametrize(
    ("service", "host", "verdict", "sentence"),
    [
        (
            PORTS,
            "trainings.sys.svc",
            "OK",
            "trainings can report to trainings.sys.svc:10443; the certificate in Secret",
        ),
        (
            PORTS,
            "other.sys.svc",
            "FAILED",
            "no training can report to trainings.sys.svc:10443: Secret sys/trainings has",
        ),
        (Answer(404), "trainings.sys.svc", "FAILED", "there is no Service sys/trainings"),
        (PORTS, None, "UNKNOWN", "ask for the right to get secrets in namespace sys"),
        (Answer(403), None, "UNKNOWN", "ask for the right to get services in namespace sys"),
    ],
)
async def test_doctor_checks_the_progress_endpoint_of_an_operator_that_has_one(service, host, verdict, sentence):
    server = ApiServer([deployed("sys", "--progress-server=trainings.sys.svc:10443")], [BINDING])
    data = renewed(None, host, datetime.now(UTC)).data() if host else {}
    secret = Answer(200, json.dumps({"data": data}).encode()) if host else Answer(403)
    server.endpoint = {f"{CORE}/services/trainings": service, f"{CORE}/secrets/trainings": secret}
    [(found, text)] = [
        (verdict, text)
        for verdict, texts in (await said(server)).items()
        for text in texts
        if text.startswith("Progress")
    ]
    assert (found, sentence in text) == (verdict, True), text


async def test_doctor_checks_all_else_without_the_package_for_certificates(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.delitem(sys.modules, "trainshed.controller.serving_certificates")
    monkeypatch.delattr(controller, "serving_certificates")
    found = await said(ApiServer([deployed("sys", "--progress-server=trainings.sys.svc:10443")], [BINDING]))
    [text] = [text for text in found["UNKNOWN"] if text.startswith("Progress")]
    assert text.endswith("without the Python package cryptography: pip install 'trainshed[operator]'")
    assert any(text.startswith("Leader") for texts in found.values() for text in texts)


@pytest.mark.parametrize("bindings", [[BINDING], []])
async def test_of_deployments_of_other_users_little_is_kept(bindings):
    large = [deployed(f"t{number}", env=[{"name": "A"}] * 5_000) for number in range(6)]
    server = ApiServer([*large, OWN], bindings)
    tracemalloc.start()
    installed = await find_installed(RestClient(server))
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(installed.deployments) == (1 if bindings else 7)
    assert (kept < 300_000, peak < 6_000_000) == (True, True), "one of them has some 1.3 MB"


@pytest.mark.parametrize(
    ("bindings", "image"),
    [([BINDING], "registry.example/trainshed:dev"), ([], IMAGE), (None, IMAGE)],
    ids=["the operator's", "that of any user", "not to be known"],
)
async def test_stacks_are_read_with_the_image_of_the_operator_but_not_with_that_of_another_deployment(bindings, image):
    server = ApiServer([deployed("sys", image="registry.example/trainshed:dev")], bindings)
    assert await image_of_operator(RestClient(server)) == image


async def test_stacks_are_read_with_the_image_of_this_version_if_deployments_may_not_be_listed():
    server = ApiServer([], [BINDING])
    server._page = lambda _: Answer(403)
    assert await image_of_operator(RestClient(server)) == IMAGE

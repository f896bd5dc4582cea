"""The resource metrics API, registered as an aggregated API: its pods use as many CPUs as a test says.

What metrics-server does, without kubelets that it could read. The rest is real, from the controller of
HorizontalPodAutoscalers to the subresource `scale` of the job.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

from support.served import JsonHandler, served
from support.tcp_proxy import ServiceProxy
from support.user_client import UserClient, eventually
from testbed.control_plane import ControlPlane

GROUP_VERSION = "metrics.k8s.io/v1beta1"
PATH = f"/apis/{GROUP_VERSION}"
HOME = "/api/v1/namespaces/kube-system/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
HOST = "metrics-server.kube-system.svc"
RESOURCE = {"name": "pods", "kind": "PodMetrics", "namespaced": True, "verbs": ["get", "list"], "singularName": ""}
DISCOVERY = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION, "resources": [RESOURCE]}


class MetricsApi:
    """Serves the metrics of the running pods; `cpu` is the usage of each container."""

    def __init__(self, plane: ControlPlane) -> None:
        self.cpu = "0"
        self._plane = plane
        self._admin = UserClient(plane.kubeconfig, "kube-system")

    @contextmanager
    def serve(self, services: ServiceProxy) -> Iterator[None]:
        """Serve it, and register it with the API server."""
        api = self

        class Handler(JsonHandler, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                if not path.startswith(PATH):
                    self.send_error(HTTPStatus.NOT_FOUND)  # the API server also asks for an OpenAPI document
                    return
                self.respond(200, DISCOVERY if path == PATH else api.pod_metrics(path, query))

        self._plane.authority.sign("metrics-api", "metrics-api", hosts=(HOST,))
        with served(Handler, self._plane.authority.server_tls("metrics-api")) as address:
            self._register(services, int(address.rpartition(":")[2]))
            yield

    def pod_metrics(self, path: str, query: str) -> dict:
        """Return the metrics of the running pods that a request selects."""
        pods = self._admin.call("GET", f"/api/v1{path.removeprefix(PATH)}?{query}")["items"]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        usage = {"cpu": self.cpu, "memory": "100Mi"}
        items = [
            {
                "metadata": {key: pod["metadata"].get(key) for key in ("name", "namespace", "labels")},
                "timestamp": now,
                "window": "1s",
                "containers": [{"name": container["name"], "usage": usage} for container in pod["spec"]["containers"]],
            }
            for pod in pods
            if pod["status"].get("phase") == "Running"
        ]
        return {"kind": "PodMetricsList", "apiVersion": GROUP_VERSION, "metadata": {}, "items": items}

    def _register(self, services: ServiceProxy, port: int) -> None:
        name = HOST.partition(".")[0]
        service = self._admin.call("POST", HOME, {"metadata": {"name": name}, "spec": {"ports": [{"port": 443}]}})
        services.backends[f"{service['spec']['clusterIP']}:443"] = port
        endpoints = {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["198.18.0.1"], "conditions": {"ready": True}}
            ],  # only that there is one counts
            "ports": [{"port": 443}],
        }
        self._admin.call("POST", SLICES, endpoints)
        group, version = GROUP_VERSION.split("/")
        spec = {
            "service": {"namespace": "kube-system", "name": name, "port": 443},
            "group": group,
            "version": version,
            "caBundle": base64.b64encode(self._plane.authority.certificate.read_bytes()).decode(),
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        }
        path = "/apis/apiregistration.k8s.io/v1/apiservices"
        self._admin.call("POST", path, {"metadata": {"name": f"{version}.{group}"}, "spec": spec})
        eventually(lambda: self._available(f"{path}/{version}.{group}"), 60)

    def _available(self, path: str) -> bool:
        conditions = self._admin.call("GET", path).get("status", {}).get("conditions", [])
        return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)

"""A webhook that is asked about each pod of a namespace: it says yes, late or now and then not at all."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from support.user_client import Hand
from testbed.control_plane import ControlPlane

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class Webhook:
    """Yes to every pod, after `delay` seconds; an internal error instead when `fails` says so of its number, from 1."""

    def __init__(self, server: ControlPlane, hand: Hand) -> None:
        self.asked = 0
        self.delay = 0.0
        self.fails: Callable[[int], bool] = lambda _number: False
        self._hand = hand
        self._authority = server.authority
        self._lock = threading.Lock()
        self._door = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._door.daemon_threads = True
        self._door.socket = self._tls().wrap_socket(self._door.socket, server_side=True)
        self._thread = threading.Thread(target=self._door.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._hand.call("POST", CONFIGURATIONS, self._configuration())
        time.sleep(1.5)  # the API server reads its configurations once a second
        return self

    def __exit__(self, *_: object) -> None:
        self._hand.call("DELETE", f"{CONFIGURATIONS}/{self._hand.namespace}")
        self._door.shutdown()
        self._door.server_close()

    def answer(self, review: dict) -> tuple[int, dict]:
        """The HTTP status and the body for one question."""
        with self._lock:
            self.asked += 1
            failed = self.fails(self.asked)
        time.sleep(self.delay)
        response = {"uid": review["request"]["uid"], "allowed": True}
        return (500, {}) if failed else (200, {**review, "request": None, "response": response})

    def _tls(self) -> ssl.SSLContext:
        self._authority.sign("webhook", "webhook", hosts=("127.0.0.1",))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._authority.folder / "webhook.crt", self._authority.folder / "webhook.key")
        return context

    def _configuration(self) -> dict:
        bundle = base64.b64encode(self._authority.certificate.read_bytes()).decode()
        url = f"https://127.0.0.1:{self._door.server_port}/"
        hook = {
            "name": "pods.test.example",
            "clientConfig": {"url": url, "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._hand.namespace}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1"],
        }
        return {"metadata": {"name": self._hand.namespace}, "webhooks": [hook]}


def _handler(webhook: Webhook) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = webhook.answer(review)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler

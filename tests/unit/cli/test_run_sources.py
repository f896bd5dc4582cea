"""`trainshed run` reads jobs from files, standard input and URLs, in any folder."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from support.local_runs import SOON, a_job


def certificate(folder: Path) -> Path:
    """Return a file with a key and a certificate for 127.0.0.1 that signs itself."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "jobs")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file = folder / "server.pem"
    pem = serialization.Encoding.PEM
    file.write_bytes(key.private_bytes(pem, form, plain) + made.sign(key, hashes.SHA256()).public_bytes(pem))
    return file


@pytest.fixture
def server(tmp_path: Path, monkeypatch) -> Iterator[str]:
    """The URL of a server with TLS that has a job at /job.yaml; programs that the test starts trust it."""
    content = yaml.safe_dump(a_job("echo from the server")).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path == "/job.yaml"
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(content if found else b"")

        def log_message(self, *args):
            pass

    file = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        found.socket = context.wrap_socket(found.socket, server_side=True)
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{found.server_port}"
        found.shutdown()
        thread.join()


def run(folder: Path, source: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run jobs in a folder that is not the checkout."""
    words = ["run", "-f", source, "--runtime", "processes", "--no-color", "--state", str(folder / "state")]
    command = [sys.executable, "-m", "trainshed", *words]
    return subprocess.run(
        command, input=text, cwd=folder, capture_output=True, text=True, timeout=2 * SOON, check=False
    )


def test_a_job_comes_from_a_url(server, tmp_path):
    done = run(tmp_path, f"{server}/job.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-0 | from the server" in done.stdout


def test_a_url_that_does_not_exist_is_reported(server, tmp_path):
    done = run(tmp_path, f"{server}/other.yaml")
    assert done.returncode == 1
    assert done.stderr == f"Error: cannot read {server}/other.yaml: HTTP Error 404: Not Found\n"


def test_a_server_that_is_not_trusted_is_reported(server, tmp_path, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    done = run(tmp_path, f"{server}/job.yaml")
    assert done.returncode == 1
    assert "CERTIFICATE_VERIFY_FAILED" in done.stderr


def test_a_job_comes_from_standard_input(tmp_path):
    done = run(tmp_path, "-", yaml.safe_dump(a_job("echo from the pipe")))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-0 | from the pipe" in done.stdout


def test_a_file_that_does_not_exist_is_reported(tmp_path):
    done = run(tmp_path, "absent.yaml")
    assert done.returncode == 1
    assert "Error: cannot read absent.yaml" in done.stderr

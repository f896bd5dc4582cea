"""`trainshed run` reads jobs from files, standard input and URLs, in any folder."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from support.local_runs import SOON, a_job
from support.served import served
from trainshed.cli.download import NOT_SENT, DownloadError, download


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
    mounted = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "of-another-job"}}]}
    content = yaml.safe_dump(a_job("echo from the server", **mounted)).encode()
    answers = {
        "/job.yaml": (200, {}, content),
        "/moved.yaml": (302, {"Location": "/job.yaml"}, b""),
        "/plain.yaml": (302, {"Location": "http://127.0.0.1/job.yaml"}, b""),
        "/plain-login.yaml": (302, {"Location": "http://jane:canary@127.0.0.1/job.yaml"}, b""),
        "/login.yaml": (302, {"Location": "https://jane:canary@127.0.0.1:1/job.yaml"}, b""),
        "/page": (200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>"),
        "/huge.yaml": (200, {}, b"# " * (5 << 20)),
        "/slow.yaml": (200, {}, b"#"),
        "/binary.yaml": (200, {}, b"\xff\xfe"),
        "/short.yaml": (200, {"Content-Length": str(len(content) + 5)}, content),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, headers, body = answers.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):  # a client that has read enough
                self.wfile.write(body)
                for _ in range(30 if self.path == "/slow.yaml" else 0):
                    self.wfile.write(b"#")
                    time.sleep(0.1)

    file = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with served(Handler, context) as address:
        yield address


def words(folder: Path, source: str, *more: str) -> list[str]:
    """The command that runs jobs in a folder that is not the checkout."""
    fixed = ("--runtime", "processes", "--no-color", "--state", str(folder / "state"))
    return [sys.executable, "-m", "trainshed", "run", "-f", source, *fixed, *more]


def run(folder: Path, source: str, *more: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = words(folder, source, *more)
    return subprocess.run(
        command, input=text, cwd=folder, capture_output=True, text=True, timeout=2 * SOON, check=False
    )


@pytest.mark.parametrize("file", ["job.yaml", "moved.yaml"])
def test_a_job_comes_from_a_url(server, tmp_path, file):
    done = run(tmp_path, f"{server}/{file}", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-0 | from the server" in done.stdout


def test_a_job_from_a_url_is_not_run_unless_the_user_agrees(server, tmp_path):
    done = run(tmp_path, f"{server}/job.yaml")
    assert done.returncode == 1
    assert "runs commands as you on this machine" in done.stderr
    assert "commands: sh -c echo from the server" in done.stderr
    assert "claims: of-another-job" in done.stderr
    assert done.stderr.endswith("Error: read the file, and add --yes to run jobs from a URL\n")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 1), (b"n\n", 1), (b"\x04", 1)])
def test_a_terminal_is_asked_before_a_job_from_a_url_runs(server, tmp_path, answer, code):
    near, far = pty.openpty()
    os.write(near, answer)
    command = words(tmp_path, f"{server}/job.yaml")
    done = subprocess.run(
        command, stdin=far, stdout=subprocess.PIPE, stderr=far, cwd=tmp_path, timeout=SOON, check=False
    )
    asked = os.read(near, 1 << 16).decode()
    os.close(near)
    os.close(far)
    assert done.returncode == code
    assert "Run them? [y/N]" in asked
    assert (b"from the server" in done.stdout) == (code == 0)


def test_ctrl_c_at_the_question_ends_as_ctrl_c(server, tmp_path):
    near, far = pty.openpty()
    with subprocess.Popen(words(tmp_path, f"{server}/job.yaml"), stdin=far, stderr=far, cwd=tmp_path) as asking:
        os.close(far)
        asked = b""
        while b"[y/N]" not in asked:
            asked += os.read(near, 1 << 16)
        for _ in range(SOON):  # a signal between the question and the read is seen by Python only when the read ends
            asking.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                asking.wait(5)  # it may end slowly; a second signal would end Python itself
                break
        asking.kill()
        assert asking.returncode == 130
    os.close(near)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("other.yaml", "HTTP Error 404: Not Found"),
        ("plain.yaml", "it is redirected to http://127.0.0.1/job.yaml, and only https:// is read"),
        ("plain-login.yaml", "it is redirected to http://127.0.0.1/job.yaml, and only https:// is read"),
        ("login.yaml", f"it is redirected to https://127.0.0.1:1/job.yaml with {NOT_SENT}"),
        ("page", "it is a page (text/html), not YAML; use the URL of the raw file"),
        ("huge.yaml", "it has more than 8 MiB"),
        ("short.yaml", "the connection has ended 5 bytes before the end of the file"),
        (
            "binary.yaml",
            "it is not text in UTF-8: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        ),
    ],
)
def test_a_url_that_cannot_be_used_is_reported(server, tmp_path, file, message):
    done = run(tmp_path, f"{server}/{file}", "--yes")
    assert done.returncode == 1
    assert done.stderr == f"Error: cannot read {server}/{file}: {message}\n"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/job.yaml", "HTTP://127.0.0.1:1/job.yaml", "ftp://127.0.0.1/job.yaml"]
)
def test_only_https_is_read(tmp_path, url):
    done = run(tmp_path, url, "--yes")
    assert done.returncode == 1
    assert "only https:// is read" in done.stderr


def test_a_server_that_does_not_answer_is_reported(tmp_path):
    done = run(tmp_path, "https://127.0.0.1:1/job.yaml", "--yes")
    assert done.stderr == "Error: cannot read https://127.0.0.1:1/job.yaml: Connection refused\n"


def test_a_password_in_a_url_is_neither_sent_nor_printed(tmp_path):
    done = run(tmp_path, "https://jane:canary@127.0.0.1:1/job.yaml", "--yes")
    assert done.stderr.startswith(
        "Error: cannot read https://127.0.0.1:1/job.yaml: it has a name or a password, which is not sent"
    )


def test_a_slow_server_does_not_keep_the_user_waiting(server):
    with pytest.raises(DownloadError, match=r"it takes longer than 1 seconds; .* use `-f -`"):
        download(f"{server}/slow.yaml", seconds=1.0)


def test_a_server_that_is_not_trusted_is_reported(server, tmp_path, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    done = run(tmp_path, f"{server}/job.yaml", "--yes")
    assert done.returncode == 1
    assert "CERTIFICATE_VERIFY_FAILED" in done.stderr


def test_a_job_comes_from_standard_input(tmp_path):
    done = run(tmp_path, "-", text=yaml.safe_dump(a_job("echo from the pipe")))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-0 | from the pipe" in done.stdout


def test_a_file_that_does_not_exist_is_reported(tmp_path):
    done = run(tmp_path, "absent.yaml")
    assert done.returncode == 1
    assert "Error: cannot read absent.yaml" in done.stderr

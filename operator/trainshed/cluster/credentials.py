"""Who we are to the API server: a kubeconfig's user, or the service account of the pod we run in.

The full client library would bring 19 MB for these few lines; what kubeconfigs have beyond certificates, tokens and
token files (exec and auth-provider plugins) is refused with a word on it.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from . import kubeconfig

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoCredentials(Exception):
    """There is no way in: the text says where we looked and what to do."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the API server is and how to be let in; a token in a file is read anew, as kubelets rotate it.

    `ca`, `certificate` and `key` are paths of PEM files; the fields with `_data` hold PEM itself, and win as they do
    in client-go.
    """

    server: str
    ca: str = ""
    ca_data: bytes = field(default=b"", repr=False)
    insecure: bool = False
    certificate: str = ""
    certificate_data: bytes = field(default=b"", repr=False)
    key: str = ""
    key_data: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""

    def headers(self) -> dict[str, str]:
        """The headers that say who we are."""
        token = Path(self.token_file).read_text(encoding="utf-8").strip() if self.token_file else self.token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def tls(self) -> ssl.SSLContext | None:
        """The TLS settings, or None for a plain connection; raises `NoCredentials` if a certificate cannot be used."""
        if urlsplit(self.server).scheme == "http":
            return None
        data = self.ca_data.decode("ascii", "ignore")
        with _named(self.ca or "certificate-authority-data"):
            context = ssl.create_default_context(cafile=self.ca or None, cadata=data or None)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        pair = f"{self.certificate or 'client-certificate-data'} with {self.key or 'client-key-data'}"
        with (
            _named(pair),
            _pem(self.certificate, self.certificate_data) as certificate,
            _pem(self.key, self.key_data) as key,
        ):
            if certificate:
                context.load_cert_chain(certificate, key or None)
        return context


class Badge:
    """The headers that say who we are, read from the token's file again once that is another than it was."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._path = Path(credentials.token_file) if credentials.token_file else None
        self._file: tuple[int, int, int] | None = None
        self._headers: dict[str, str] = {}

    def headers(self) -> dict[str, str]:
        """The headers; raises OSError if there should be a token and is none."""
        found = self._path.stat() if self._path else None
        file = (found.st_ino, found.st_mtime_ns, found.st_size) if found else (0, 0, 0)
        if file != self._file:
            self._headers, self._file = self._credentials.headers(), file
        return self._headers

    def renew(self) -> bool:
        """Read the token anew the next time, whatever the file looks like; whether there is a file to read."""
        self._file = None
        return self._path is not None


def find(path: str = "", context: str = "") -> Credentials:
    """The named kubeconfig's; without one those of the pod; without either the usual kubeconfig's.

    Raises:
        NoCredentials: there are none, or of a sort that is not understood.
    """
    if path:
        return from_kubeconfig(Path(path), context)
    if (SERVICE_ACCOUNT / "token").exists():
        return from_pod()
    paths = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if len(paths) > 1:
        raise NoCredentials(f"KUBECONFIG names {len(paths)} files, which are not merged: name one with --kubeconfig")
    if paths:
        with _named("KUBECONFIG"):
            return from_kubeconfig(Path(paths[0]), context)
    usual = Path("~/.kube/config")
    with suppress(RuntimeError):  # there is no home
        usual = usual.expanduser()
    if usual.exists():
        return from_kubeconfig(usual, context)
    raise NoCredentials(f"no credentials: not in a pod, and there is no {usual}; name a kubeconfig with --kubeconfig")


def from_pod() -> Credentials:
    """The service account of the pod that we run in."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NoCredentials("a service account is mounted, but KUBERNETES_SERVICE_HOST is not set")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Credentials(server, ca=str(SERVICE_ACCOUNT / "ca.crt"), token_file=str(SERVICE_ACCOUNT / "token"))


def from_kubeconfig(path: Path, context: str = "") -> Credentials:
    """The user of a kubeconfig's current context, or of the one that is named.

    Raises:
        NoCredentials: the file is not a kubeconfig, a field of it cannot be used, or its user needs a plugin.
    """
    try:
        config = kubeconfig.read(path)
        chosen = config.named("contexts", context or config.text("current-context"))
        found = _credentials(
            config.named("clusters", chosen.text("cluster")), config.named("users", chosen.text("user"))
        )
    except kubeconfig.BadKubeconfig as error:
        raise NoCredentials(str(error)) from error
    with _named(str(path)):
        found.tls()
    return found


def _credentials(cluster: kubeconfig.Section, user: kubeconfig.Section) -> Credentials:
    if "exec" in user.fields or "auth-provider" in user.fields:
        raise NoCredentials(f"{user.path}: its user needs a plugin; use a token, a certificate, or run in the cluster")
    ca, ca_data = cluster.file("certificate-authority")
    certificate, certificate_data = user.file("client-certificate")
    key, key_data = user.file("client-key")
    return Credentials(
        server=_server(cluster),
        ca=ca,
        ca_data=ca_data,
        insecure=cluster.flag("insecure-skip-tls-verify"),
        certificate=certificate,
        certificate_data=certificate_data,
        key=key,
        key_data=key_data,
        token=user.text("token"),
        token_file=user.file("tokenFile")[0],
    )


def _server(cluster: kubeconfig.Section) -> str:
    """The address of the API server, checked: only a plain `http` may mean that there is no TLS."""
    server = cluster.text("server").rstrip("/")
    if not server:
        raise cluster.problem("server", "is missing")
    try:
        address = urlsplit(server)
        sound = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise cluster.problem("server", f"is {server!r}, which is not https:// or http:// with a host and a port")
    return server


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Says of a problem within the block what it is a problem of."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise NoCredentials(f"{what} cannot be used: {error}") from error
    except NoCredentials as error:
        raise NoCredentials(f"{what}: {error}") from error


@contextmanager
def _pem(path: str, data: bytes) -> Iterator[str]:
    """The path of a PEM file for as long as the block lasts: Python loads a client's key from a file only."""
    if not data:
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="trainshed-", suffix=".pem") as file:
        file.write(data)
        file.flush()
        yield file.name

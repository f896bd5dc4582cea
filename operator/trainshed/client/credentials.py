"""Credentials for the API server: from a pod's service account or from a kubeconfig."""

from __future__ import annotations

import base64
import logging
import os
import ssl
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trainshed.manifests import reader

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

log = logging.getLogger(__name__)


class NoCredentials(Exception):
    """There are no usable credentials; the message names the source and what to do."""


class ClientContext(ssl.SSLContext):
    """TLS settings that follow their files, as client-go's do: CAs and client certificates are rotated.

    New connections resume `session`, if one is set and the server still knows it. This saves half of the processor time
    of a handshake, which many requests at once cause many of.
    """

    session: ssl.SSLSession | None = None
    credentials: Credentials
    _files: tuple[object, ...] = ()
    _current: ssl.SSLContext | None = None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002 - the signature of the base class
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Return the TLS side of a connection."""
        self._reload()
        wrap = self._current.wrap_bio if self._current else super().wrap_bio
        try:
            return wrap(incoming, outgoing, server_side, server_hostname, session or self.session)
        except ValueError:  # the session is of a connection that was opened before the files changed
            self.session = None
            return wrap(incoming, outgoing, server_side, server_hostname)

    def follow(self, credentials: Credentials) -> None:
        """Read the files of these credentials again from now on when they change; raises `NoCredentials`."""
        self.credentials, self._files = credentials, credentials.versions()
        credentials.load(self)

    def _reload(self) -> None:
        """Read the files if they have changed; while they cannot be used, keep to what was read before."""
        files = self.credentials.versions()
        if files == self._files:
            return
        fresh = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            self.credentials.load(fresh)
        except NoCredentials as error:
            log.warning("%s; using what was read before", error)
            return
        self._files, self._current, self.session = files, fresh, None


@dataclass(frozen=True, slots=True)
class Credentials:
    """The address of the API server, and credentials for it. A token file is read each time: kubelets rotate tokens.

    `ca`, `certificate` and `key` are paths of PEM files; the fields with `_data` contain PEM and take precedence, as
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
        """Return the headers for authentication; raises OSError if the token file cannot be read."""
        token = Path(self.token_file).read_text(encoding="utf-8").strip() if self.token_file else self.token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def tls(self) -> ClientContext | None:
        """Return the TLS settings, or None for plain http; raises `NoCredentials` if a certificate is unusable."""
        if urlsplit(self.server).scheme == "http":
            return None
        context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)
        context.follow(self)
        return context

    def versions(self) -> tuple[object, ...]:
        """Return values that differ once a file of the TLS settings has changed."""
        return tuple(_version(path) for path in (self.ca, self.certificate, self.key))

    def load(self, context: ssl.SSLContext) -> None:
        """Load the certificates; raises `NoCredentials` if one is unusable."""
        data = self.ca_data.decode("ascii", "ignore")
        with _named(self.ca or "certificate-authority-data"):
            if self.ca or data:
                context.load_verify_locations(self.ca or None, None, data or None)
            else:
                context.load_default_certs()
        # As client-go, trust a certificate of the bundle that another CA has signed, and demand no more than RFC 5280:
        # the CAs of EKS and MicroK8s lack extensions (https://github.com/kubernetes-client/python/issues/2394).
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
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


def _version(path: str) -> object:
    try:
        found = Path(path).stat() if path else None
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size) if found else None


class TokenSource:
    """The headers for authentication, cached until the token file changes."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._path = Path(credentials.token_file) if credentials.token_file else None
        self._file: object = None
        self._headers: dict[str, str] = {}

    def headers(self) -> dict[str, str]:
        """Return the headers; raises OSError if the token file cannot be read."""
        file = _version(self._credentials.token_file) or ()
        if file != self._file:
            self._headers, self._file = self._credentials.headers(), file
        return self._headers

    def renew(self) -> bool:
        """Drop the cached headers; return whether there is a token file to read again."""
        self._file = None
        return self._path is not None


def find_credentials(path: str = "", context: str = "") -> Credentials:
    """Return the credentials of the kubeconfig at `path`.

    Without a path: of the service account in a pod, else of the kubeconfig that KUBECONFIG names, else of
    ~/.kube/config.

    Raises:
        NoCredentials: There are none, or they are not supported.
    """
    if path:
        return from_kubeconfig(Path(path), context)
    if (SERVICE_ACCOUNT / "token").exists():
        return from_pod()
    paths = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if len(paths) > 1:
        raise NoCredentials(
            f"KUBECONFIG lists {len(paths)} files, which Trainshed does not merge: choose one with --kubeconfig"
        )
    if paths:
        with _named("KUBECONFIG"):
            return from_kubeconfig(Path(paths[0]), context)
    default = Path("~/.kube/config")
    with suppress(RuntimeError):  # the home directory is unknown
        default = default.expanduser()
    if default.exists():
        return from_kubeconfig(default, context)
    raise NoCredentials(f"no credentials found: not in a pod, and {default} does not exist; set --kubeconfig")


def from_pod() -> Credentials:
    """Return the credentials of the service account of the operator's pod; raises `NoCredentials`."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NoCredentials("a service account is mounted, but KUBERNETES_SERVICE_HOST is not set")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Credentials(server, ca=str(SERVICE_ACCOUNT / "ca.crt"), token_file=str(SERVICE_ACCOUNT / "token"))


def from_kubeconfig(path: Path, context: str = "") -> Credentials:
    """Return the credentials of a kubeconfig's context, by default of the current context.

    Raises:
        NoCredentials: The file is not a kubeconfig, a field is invalid, or the user needs a credential plugin.
    """
    try:
        config = read_kubeconfig(path)
        chosen = config.named("contexts", context or config.text("current-context"))
        found = _credentials(
            config.named("clusters", chosen.text("cluster")), config.named("users", chosen.text("user"))
        )
    except BadKubeconfig as error:
        raise NoCredentials(str(error)) from error
    with _named(str(path)):
        found.tls()
    return found


#: The fields that are used, and those that change nothing here.
CLUSTER_FIELDS = (
    *("server", "certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"),
    *("disable-compression", "extensions"),
)
USER_FIELDS = (
    *("token", "tokenFile", "client-certificate", "client-certificate-data", "client-key", "client-key-data"),
    "extensions",
)


def _credentials(cluster: Section, user: Section) -> Credentials:
    if "exec" in user.fields or "auth-provider" in user.fields:
        raise NoCredentials(
            f"{user.path}: credential plugins are not supported; use a token or a certificate, or run in the cluster"
        )
    cluster.demand(CLUSTER_FIELDS)
    user.demand(USER_FIELDS)
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


def _server(cluster: Section) -> str:
    """Return the validated address of the API server: only the scheme `http` may switch off TLS."""
    server = cluster.text("server").rstrip("/")
    if not server:
        raise cluster.problem("server", "is missing")
    try:
        address = urlsplit(server)
        sound = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise cluster.problem(
            "server", f"is {server!r}, must be an https:// or http:// URL with a host and an optional port"
        )
    return server


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Prefix errors of the block with the name of their subject."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise NoCredentials(f"cannot use {what}: {error}") from error
    except NoCredentials as error:
        raise NoCredentials(f"{what}: {error}") from error


@contextmanager
def _pem(path: str, data: bytes) -> Iterator[str]:
    """Yield the path of a PEM file that exists during the block: Python loads a client's key only from a file."""
    if not data:
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="trainshed-", suffix=".pem") as file:
        file.write(data)
        file.flush()
        yield file.name


class BadKubeconfig(Exception):
    """A kubeconfig, or one of its fields, is invalid."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the kubeconfig at `path`: the whole file, a context, a cluster or a user; `name` is for errors."""

    path: Path
    name: str
    fields: Mapping[str, Any]

    def problem(self, field: str, what: str) -> BadKubeconfig:
        """Return the error about a field."""
        return BadKubeconfig(f"{self.path}: {self.name}{field} {what}")

    def demand(self, known: Collection[str]) -> None:
        """Raise `BadKubeconfig` for a field with a value that is not among the known ones.

        Without it, the connection would go elsewhere, or would have other rights, than the user wants.
        """
        for name, value in self.fields.items():
            if name not in known and value not in (None, "", False, [], {}):
                raise self.problem(name, f"is not supported; the supported fields are {', '.join(sorted(known))}")

    def named(self, field: str, name: str) -> Section:
        """Return the content of the entry with this name in a list such as `users`; raises `BadKubeconfig`."""
        items = self.fields.get(field) or ()
        if not isinstance(items, (list, tuple)):
            raise self.problem(field, "must be a list")
        found = next((item for item in items if isinstance(item, Mapping) and item.get("name") == name), None)
        if found is None:
            raise self.problem(field, f"has no entry named {name!r}")
        kind = field.removesuffix("s")
        content = found.get(kind) or {}
        if not isinstance(content, Mapping):
            raise self.problem(f"{field}[{name}].{kind}", "must be a mapping")
        return Section(self.path, f"{field}[{name}].{kind}.", content)

    def text(self, field: str) -> str:
        """Return the value of a field as text, empty if the field is absent; raises `BadKubeconfig`."""
        value = self.fields.get(field)
        if value is not None and not isinstance(value, str):
            raise self.problem(field, f"must be a string{'' if isinstance(value, (Mapping, list)) else ', in quotes'}")
        return value or ""

    def flag(self, field: str) -> bool:
        """Return the value of a boolean field; raises `BadKubeconfig` for a string such as "false"."""
        value = self.fields.get(field)
        if value is not None and not isinstance(value, bool):
            raise self.problem(field, "must be true or false")
        return bool(value)

    def file(self, field: str) -> tuple[str, bytes]:
        """Return the path of the file that a field names, relative to the kubeconfig, and the data of `<field>-data`.

        Data take precedence, as in client-go, and the path is empty then. Raises `BadKubeconfig`.
        """
        data = self.text(f"{field}-data")
        if data:
            try:
                return "", base64.b64decode("".join(data.split()), validate=True)
            except ValueError:
                raise self.problem(f"{field}-data", "is not valid base64") from None
        if not self.text(field):
            return "", b""
        path = self.path.parent / self.text(field)
        try:
            path.open("rb").close()
        except OSError as error:
            raise self.problem(field, f"refers to {path}, which cannot be read: {error.strerror}") from None
        return str(path), b""


def read_kubeconfig(path: Path) -> Section:
    """Read the whole file. A YAML error gives only the number of the line, because the text may contain a token.

    Raises:
        BadKubeconfig: The file cannot be read, or is not a kubeconfig.
    """
    try:
        text = reader.text(path.read_bytes())
    except OSError as error:
        raise BadKubeconfig(f"cannot read kubeconfig {path}: {error.strerror}") from None
    except reader.BadManifest:
        raise BadKubeconfig(f"{path} is not UTF-8 text") from None
    try:
        config = reader.document(text, unique=False)  # as for client-go, the last of two equal keys wins
    except reader.BadManifest as error:
        raise BadKubeconfig(f"{path} is not valid YAML: syntax error in line {error.line}") from None
    if not isinstance(config, Mapping):
        raise BadKubeconfig(f"{path} is not a kubeconfig: its top level is not a mapping")
    return Section(path, "", config)

"""Credentials for the API server, and TLS settings and tokens that follow their files."""

from __future__ import annotations

import logging
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from trainshed.api.foreign_text import one_line
from trainshed.process import Clock

#: The time between two runs of a credential plugin whose answers do not help.
RETRY_DELAY = timedelta(seconds=5)
#: The most seconds for which everything waits for a plugin that runs again.
PATIENCE = 10.0
#: The headers of a request, of which some may occur several times.
Headers = tuple[tuple[str, str], ...]

log = logging.getLogger(__name__)


class NoCredentials(Exception):
    """There are no usable credentials; the message names the source and what to do, as one printable line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


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
        server_hostname = self.credentials.server_name or server_hostname
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
class PluginAnswer:
    """What a credential plugin gives: a token, or a certificate and its key as PEM; until `expires`, or for good."""

    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    expires: datetime | None = None


class Plugin:
    """The answer of a credential plugin, which is asked again when the answer expires or is rejected.

    `ask` may take seconds and raises `NoCredentials`. Nothing else runs meanwhile, but for PATIENCE seconds at most: a
    plugin that takes longer goes on in a thread, and the last answer is used until it has ended.
    """

    def __init__(self, ask: Callable[[], PluginAnswer], now: Callable[[], datetime] | None = None) -> None:
        self._ask, self._now = ask, now or Clock().now
        self._answer = ask()
        self._retry_at = self._now()
        self._thread: Thread | None = None

    def answer(self, *, rejected: bool = False) -> PluginAnswer:
        """Return the current answer; while the plugin fails, the last one."""
        now = self._now()
        is_running = self._thread is not None and self._thread.is_alive()
        if (rejected or self._is_over(now)) and now >= self._retry_at and not is_running:
            self._thread = Thread(target=self._renew, daemon=True)
            self._thread.start()
            self._thread.join(PATIENCE)
            if rejected or self._is_over(now):
                self._retry_at = now + RETRY_DELAY
        return self._answer

    def _renew(self) -> None:
        try:
            self._answer = self._ask()
        except NoCredentials as error:
            log.warning("%s", error)

    def _is_over(self, now: datetime) -> bool:
        return self._answer.expires is not None and now >= self._answer.expires


@dataclass(frozen=True, slots=True)
class Credentials:
    """The address of the API server, and credentials for it. A token file is read each time: kubelets rotate tokens.

    `ca`, `certificate` and `key` are paths of PEM files; the fields with `_data` contain PEM and take precedence, as
    in client-go. `server_name` is the name in the server's certificate, if not that of its address, and `proxy` the URL
    of a proxy on the way. `impersonation` are the headers to act as another user. `namespace` is that of the context.
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
    basic: str = field(default="", repr=False)
    server_name: str = ""
    proxy: str = field(default="", repr=False)
    impersonation: Headers = ()
    plugin: Plugin | None = None
    namespace: str = ""

    def headers(self) -> Headers:
        """Return the headers for authentication; raises OSError if the token file cannot be read."""
        token = Path(self.token_file).read_text(encoding="utf-8").strip() if self.token_file else self.token
        if self.plugin:
            token = self.plugin.answer().token
        value = f"Bearer {token}" if token else self.basic
        return (*((("Authorization", value),) if value else ()), *self.impersonation)

    def tls(self) -> ClientContext | None:
        """Return the TLS settings, or None for plain http; raises `NoCredentials` if a certificate is unusable."""
        if urlsplit(self.server).scheme == "http":
            return None
        context = ClientContext(ssl.PROTOCOL_TLS_CLIENT)
        context.follow(self)
        return context

    def versions(self) -> tuple[object, ...]:
        """Return values that differ once a file of the TLS settings has changed."""
        files = tuple(_version(path) for path in (self.ca, self.certificate, self.key))
        return (*files, self.plugin.answer().certificate) if self.plugin else files

    def load(self, context: ssl.SSLContext) -> None:
        """Load the certificates; raises `NoCredentials` if one is unusable."""
        data = self.ca_data.decode("ascii", "ignore")
        with named(self.ca or "certificate-authority-data"):
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
        given = self.plugin.answer() if self.plugin else PluginAnswer()
        pair = f"{self.certificate or 'client-certificate-data'} with {self.key or 'client-key-data'}"
        with (
            named(pair),
            _pem(self.certificate, given.certificate or self.certificate_data) as certificate,
            _pem(self.key, given.key or self.key_data) as key,
        ):
            if certificate:
                context.load_cert_chain(certificate, key or None, _no_password)


def _no_password() -> str:
    """Raise `NoCredentials`: OpenSSL would ask for it on the terminal, for each new connection."""
    raise NoCredentials("the key has a password, which is not supported, and not by kubectl; use a key without one")


def _version(path: str) -> object:
    try:
        found = Path(path).stat() if path else None
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size) if found else None


class TokenSource:
    """The headers for authentication, cached until the token file changes or the plugin's answer expires."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._source: object = None
        self._headers: Headers = ()

    def headers(self) -> Headers:
        """Return the headers; raises OSError if the token file cannot be read."""
        plugin = self._credentials.plugin
        source = plugin.answer() if plugin else _version(self._credentials.token_file) or ()
        if source != self._source:
            self._headers, self._source = self._credentials.headers(), source
        return self._headers

    def renew(self) -> bool:
        """Get the credentials again, which were rejected; return whether there may be others.

        A certificate is read from its file by the next connection.
        """
        self._source = None
        if plugin := self._credentials.plugin:
            plugin.answer(rejected=True)
        return bool(plugin or self._credentials.token_file or self._credentials.certificate)


@contextmanager
def named(what: str) -> Iterator[None]:
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

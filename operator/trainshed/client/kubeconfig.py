"""Finds credentials: of the kubeconfigs that the user names, else of the service account in a pod, else of ~/.kube.

They are read here and not by the official client's loader, which passes over what is an error: a field that it does not
know, a user that is missing, the text "false" (docs/decisions/kubeconfig.md).
"""

from __future__ import annotations

import base64
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from trainshed.manifests import reader
from trainshed.manifests.nodes import BadManifest

from .credential_plugin import ask
from .credentials import Credentials, NoCredentials, Plugin, named
from .proxies import proxy_of

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: The fields that are used, and those that change nothing here.
CONTEXT_FIELDS = ("cluster", "user", "namespace", "extensions")
CLUSTER_FIELDS = (
    *("server", "certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify", "tls-server-name"),
    *("proxy-url", "disable-compression", "extensions"),
)
USER_FIELDS = (
    *("token", "tokenFile", "client-certificate", "client-certificate-data", "client-key", "client-key-data"),
    *("username", "password", "exec", "as", "as-uid", "as-groups", "as-user-extra", "extensions"),
)
PLUGIN_FIELDS = ("apiVersion", "command", "args", "env", "installHint", "interactiveMode", "provideClusterInfo")
#: The characters besides letters and digits that the name of a header may have (RFC 9110, token).
IN_NAMES = "!#$&'*+-.^_`|~"


def find_credentials(path: str = "", context: str = "") -> Credentials:
    """Return the credentials of the kubeconfig at `path`.

    Without a path: of the kubeconfigs that KUBECONFIG names, else of the service account in a pod, unless a context is
    asked for, else of ~/.kube/config.

    Raises:
        NoCredentials: There are none, or they are not supported.
    """
    if path:
        return from_kubeconfigs((Path(path),), context)
    listed = tuple(Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path)
    if listed:
        with named("KUBECONFIG"):
            # As kubectl: of several files some may be missing.
            return from_kubeconfigs(tuple(path for path in listed if path.exists()) or listed, context)
    if not context and (SERVICE_ACCOUNT / "token").exists():
        return from_pod()
    default = Path("~/.kube/config")
    with suppress(RuntimeError):  # the home directory is unknown
        default = default.expanduser()
    if default.exists():
        return from_kubeconfigs((default,), context)
    missing = f"no kubeconfig has the context {context!r}" if context else "no credentials found: not in a pod"
    raise NoCredentials(f"{missing}, and {default} does not exist; set --kubeconfig")


def from_pod() -> Credentials:
    """Return the credentials of the service account of the operator's pod; raises `NoCredentials`."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NoCredentials("a service account is mounted, but KUBERNETES_SERVICE_HOST is not set")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    own = SERVICE_ACCOUNT / "namespace"
    return Credentials(
        server,
        ca=str(SERVICE_ACCOUNT / "ca.crt"),
        token_file=str(SERVICE_ACCOUNT / "token"),
        namespace=own.read_text(encoding="utf-8").strip() if own.exists() else "",
    )


def from_kubeconfigs(paths: Sequence[Path], context: str = "") -> Credentials:
    """Return the credentials of a context, by default of the current one, from one or more files.

    Of two entries with the same name that of the first file is used, as in kubectl.

    Raises:
        NoCredentials: A file is not a kubeconfig, a field is invalid or not supported, or a credential plugin fails.
    """
    try:
        files = tuple(read_kubeconfig(path) for path in paths)
        chosen = _entry(files, "contexts", context or _current(files))
        cluster = _entry(files, "clusters", chosen.text("cluster"))
        user = _entry(files, "users", chosen.text("user"))
        chosen.demand(CONTEXT_FIELDS)
        found = _credentials(cluster, user, chosen.text("namespace"))
    except BadKubeconfig as error:
        raise NoCredentials(str(error)) from error
    with named(", ".join(map(str, paths))):
        found.tls()
    return found


def _current(files: Sequence[Section]) -> str:
    """Return the name of the current context; raises `BadKubeconfig` if no file has one."""
    if found := next(filter(None, (file.text("current-context") for file in files)), ""):
        return found
    raise BadKubeconfig(f"{files[0].path} has no current-context: choose a context, or another kubeconfig")


def _entry(files: Sequence[Section], field: str, name: str) -> Section:
    """Return the content of an entry of a list such as `users`; raises `BadKubeconfig` if no file has it."""
    found = next((entry for file in files if (entry := file.named(field, name))), None)
    if found is None:
        raise BadKubeconfig(f"{', '.join(str(file.path) for file in files)}: {field} has no entry named {name!r}")
    return found


def _credentials(cluster: Section, user: Section, namespace: str) -> Credentials:
    if user.fields.get("auth-provider"):
        raise user.problem("auth-provider", "is not supported, and not by kubectl since 1.26; use a plugin (`exec`)")
    cluster.demand(CLUSTER_FIELDS)
    user.demand(USER_FIELDS)
    ca, ca_data = cluster.file("certificate-authority")
    certificate, certificate_data = user.file("client-certificate")
    key, key_data = user.file("client-key")
    server = _server(cluster)
    basic = f"{user.text('username')}:{user.text('password')}".encode() if user.text("username") else b""
    return Credentials(
        server=server,
        ca=ca,
        ca_data=ca_data,
        insecure=cluster.flag("insecure-skip-tls-verify"),
        certificate=certificate,
        certificate_data=certificate_data,
        key=key,
        key_data=key_data,
        token=_token(user),
        token_file=user.file("tokenFile")[0],
        basic=f"Basic {base64.b64encode(basic).decode()}" if basic else "",
        server_name=cluster.text("tls-server-name"),
        proxy=_proxy(cluster, server),
        impersonation=tuple(_impersonation(user)),
        plugin=_plugin(cluster, user),
        namespace=namespace,
    )


def _token(user: Section) -> str:
    """Return the token, which is sent as the value of a header; raises `BadKubeconfig`."""
    if not user.text("token").isprintable():
        raise user.problem("token", "cannot be sent: it has a line break or another character that is not printable")
    return user.text("token")


def _plugin(cluster: Section, user: Section) -> Plugin | None:
    """Return the answer of the credential plugin; as in kubectl it is not asked if there is a token or a password."""
    spec = user.fields.get("exec")
    if not spec or user.text("token") or user.text("tokenFile") or user.text("username"):
        return None
    if not isinstance(spec, Mapping):
        raise user.problem("exec", "must be a mapping")
    checked = _checked_plugin(Section(user.path, f"{user.name}exec.", spec))
    return Plugin(lambda: ask(checked, cluster.fields, user.path.parent))


def _checked_plugin(spec: Section) -> dict[str, Any]:
    """Return an `exec` section whose fields are of the types that the runner of plugins takes for granted."""
    spec.demand(PLUGIN_FIELDS)
    for field in ("command", "apiVersion", "installHint"):
        spec.text(field)
    spec.flag("provideClusterInfo")
    args, env = spec.fields.get("args") or (), spec.fields.get("env") or ()
    if not isinstance(args, list | tuple) or not all(isinstance(word, str) for word in args):
        raise spec.problem("args", "must be a list of strings, in quotes")
    if not isinstance(env, list | tuple) or not all(isinstance(one, Mapping) for one in env):
        raise spec.problem("env", "must be a list of mappings with name and value")
    variables = [Section(spec.path, f"{spec.name}env[{index}].", one) for index, one in enumerate(env)]
    for variable in variables:
        variable.demand(("name", "value"))
    pairs = [{field: variable.text(field) for field in ("name", "value")} for variable in variables]
    return {**spec.fields, "args": args, "env": pairs}


def _impersonation(user: Section) -> Iterator[tuple[str, str]]:
    """Yield the headers to act as another user; as in client-go only together with `as`."""
    groups: object = user.fields.get("as-groups") or ()
    extra: object = user.fields.get("as-user-extra") or {}
    if not isinstance(groups, list | tuple):
        raise user.problem("as-groups", "must be a list")
    if not isinstance(extra, Mapping) or not all(isinstance(values, list | tuple) for values in extra.values()):
        raise user.problem("as-user-extra", "must be a mapping of lists")
    found = [("Impersonate-User", user.text("as")), ("Impersonate-Uid", user.text("as-uid"))]
    found += [("Impersonate-Group", group) for group in groups]
    found += [
        (f"Impersonate-Extra-{quote(str(key), safe=IN_NAMES)}", value)
        for key, values in extra.items()
        for value in values
    ]
    given: list[tuple[str, Any]] = [(name, value) for name, value in found if value]
    if given and not user.text("as"):
        raise user.problem("as", "is missing, with which `as-uid`, `as-groups` and `as-user-extra` are used")
    for name, value in given:
        if not isinstance(value, str) or not value.isprintable():
            raise user.problem("as", f"cannot be sent: {name} must be printable text")
        yield name, value


def _proxy(cluster: Section, server: str) -> str:
    """Return the proxy of the cluster, else that of the environment, empty without one."""
    given = cluster.text("proxy-url") or proxy_of(server, os.environ)
    if given and not _is_address(given, "http"):
        raise cluster.problem("proxy-url", "(or HTTPS_PROXY) must be an http:// URL; other proxies are not supported")
    return given


def _server(cluster: Section) -> str:
    """Return the validated address of the API server: only the scheme `http` may switch off TLS."""
    server = cluster.text("server").rstrip("/")
    if not server:
        raise cluster.problem("server", "is missing")
    if not _is_address(server, "http", "https"):
        what = "must be an https:// or http:// URL with a host and an optional port, and without a name and a password"
        raise cluster.problem("server", what)
    return server


def _is_address(url: str, *schemes: str) -> bool:
    """Return whether a URL has one of these schemes, a host and, if any, a valid port; of a server it has no login."""
    try:
        address = urlsplit(url)
        sound = address.scheme in schemes and bool(address.hostname) and address.port != 0
    except ValueError:
        return False
    return sound and ("https" not in schemes or "@" not in address.netloc)


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

    def named(self, field: str, name: str) -> Section | None:
        """Return the content of the entry with this name in a list such as `users`; raises `BadKubeconfig`."""
        items = self.fields.get(field) or ()
        if not isinstance(items, (list, tuple)):
            raise self.problem(field, "must be a list")
        found = next((item for item in items if isinstance(item, Mapping) and item.get("name") == name), None)
        if found is None:
            return None
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
        except (OSError, ValueError) as error:  # a ValueError is a zero byte, which no path has
            why = error.strerror if isinstance(error, OSError) else error
            raise self.problem(field, f"refers to {path}, which cannot be read: {why}") from None
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
    except BadManifest:
        raise BadKubeconfig(f"{path} is not UTF-8 text") from None
    try:
        # As for client-go, the last of two equal keys wins, nothing after a line of --- counts, and an empty file has
        # no entries.
        config = {} if (found := reader.first_document(text, unique=False)) is None else found
    except BadManifest as error:
        raise BadKubeconfig(f"{path} is not valid YAML: syntax error in line {error.line}") from None
    if not isinstance(config, Mapping):
        raise BadKubeconfig(f"{path} is not a kubeconfig: its top level is not a mapping")
    return Section(path, "", config)

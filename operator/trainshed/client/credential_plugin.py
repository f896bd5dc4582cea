"""Runs credential plugins of kubeconfigs, such as those of cloud providers, with the official Python client.

The client is imported only for a kubeconfig with a plugin: it takes a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from trainshed.api.foreign_text import one_line

from .credentials import NoCredentials, PluginAnswer


def ask(spec: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path) -> PluginAnswer:
    """Run the plugin of an `exec` section in the folder of its kubeconfig, and return its answer.

    Raises:
        NoCredentials: It fails, or its answer has no credentials; the message names it and quotes no credentials.
    """
    name = f"the credential plugin {one_line(str(spec.get('command')))}"
    try:
        from kubernetes.config.config_exception import ConfigException  # noqa: PLC0415 - see above
        from kubernetes.config.exec_provider import ExecProvider  # noqa: PLC0415
        from kubernetes.config.kube_config import ConfigNode  # noqa: PLC0415
    except ImportError:
        raise NoCredentials(
            f"{name} needs the Python package kubernetes: pip install 'trainshed[kubeconfig]'"
        ) from None
    try:
        provider, node = cast("Any", ExecProvider), cast("Any", ConfigNode)  # the client has no types
        status = provider(node("exec", dict(spec)), str(folder), node("cluster", dict(cluster))).run()
        expires = status.get("expirationTimestamp")
        if not (status.get("token") or "").isprintable():
            raise NoCredentials(f"{name} gives a token that cannot be sent: it must be printable text")
        found = PluginAnswer(
            token=status.get("token") or "",
            certificate=(status.get("clientCertificateData") or "").encode(),
            key=(status.get("clientKeyData") or "").encode(),
            expires=_time(expires) if expires else None,
        )
    except FileNotFoundError as error:
        hint = one_line(str(spec.get("installHint") or "install it, or put it on the PATH"))
        raise NoCredentials(f"{name} is not there ({error.strerror}): {hint}") from None
    except (ConfigException, OSError) as error:
        raise NoCredentials(f"{name} failed: {one_line(str(error))}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NoCredentials(f"{name} or its section `exec` is invalid ({type(error).__name__})") from None
    if not (found.token or (found.certificate and found.key)):
        raise NoCredentials(f"{name} gives neither a token nor a certificate with its key")
    return found


def _time(text: str) -> datetime:
    """Return a time, in UTC unless it says otherwise; raises ValueError and TypeError."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)

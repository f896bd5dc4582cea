"""Webhooks by name: each is a file in the folder of a mounted Secret, read when a message is sent.

The kubelet mounts the Secret and updates the files, so that the operator needs no right to read Secrets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from trainshed.api.job_annotations import NOTIFY_NAME
from trainshed.manifests.nodes import BadManifest
from trainshed.manifests.reader import documents

from .message import FORMATS

#: The most bytes of a file.
MOST_BYTES = 16_384
#: Headers that belong to the request.
OWN_HEADERS = frozenset(("host", "content-length", "content-type", "transfer-encoding", "connection"))


class BadWebhook(Exception):
    """The file of a webhook is of no use; the message does not quote it, because it has secrets."""


class Webhook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where messages go: `format` is one of `FORMATS`, only jobs of its `namespaces` use it, or all if empty."""

    url: str
    format: str = "json"
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    namespaces: tuple[str, ...] = ()

    @property
    def parts(self) -> SplitResult:
        """The parts of the URL."""
        return urlsplit(self.url)


def read_webhook(folder: Path, name: str, namespace: str) -> Webhook | None:
    """Return the webhook of this name for jobs of a namespace, None if there is none; raises `BadWebhook`.

    A file is a URL, or YAML with the fields of `Webhook`.
    """
    if not NOTIFY_NAME.fullmatch(name):  # it is a part of a path
        return None
    try:
        with (folder / name).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadWebhook(f"its file cannot be read: {error.strerror}") from None
    found = _parse(content)
    if found.namespaces and namespace not in found.namespaces:
        return None
    return found


def _parse(content: bytes) -> Webhook:
    if len(content) > MOST_BYTES:
        raise BadWebhook(f"its file has more than {MOST_BYTES} bytes")
    try:
        text = content.decode().strip()
        found = Webhook(text) if text[:4].lower() == "http" else msgspec.convert(_value(text), Webhook)
        problem = _problem(found)
    except (ValueError, BadManifest):  # of the parts of a URL, too
        problem = "its file is neither a URL nor YAML with url, format, headers and namespaces"
    else:
        if not problem:
            return found
    raise BadWebhook(problem)


def _value(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of the only document of a text; raises `BadManifest`, and `ValueError` if there are others."""
    (found,) = documents(text)
    return found.value


def _problem(webhook: Webhook) -> str:
    parts = webhook.parts
    plain = webhook.url.isascii() and webhook.url.isprintable() and " " not in webhook.url
    if not plain or parts.scheme not in ("https", "http") or not parts.hostname or parts.username is not None:
        return "its url is not https://HOST/PATH without a user"
    if parts.port == 0:
        return "its url has the port 0"
    if webhook.format not in FORMATS:
        return f"its format is none of {', '.join(FORMATS)}"
    for header, value in webhook.headers.items():
        is_token = header.isascii() and header.replace("-", "").isalnum()
        if not is_token or header.lower() in OWN_HEADERS or not (value.isascii() and value.isprintable()):
            return "one of its headers cannot be sent"
    return ""

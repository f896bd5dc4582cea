"""A kubeconfig: a server and a user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from .places import written


def kubeconfig(file: Path, user: str, server: str, known: Mapping[str, str], *, authority: Path | None = None) -> Path:
    """Write one for a `user` who is `known` by these credentials; without an `authority` the server has no TLS."""
    trusted = {} if authority is None else {"certificate-authority": str(authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": user,
        "contexts": [{"name": user, "context": {"cluster": "bed", "user": user}}],
        "clusters": [{"name": "bed", "cluster": {"server": server} | trusted}],
        "users": [{"name": user, "user": dict(known)}],
    }
    return written(file, yaml.safe_dump(config))

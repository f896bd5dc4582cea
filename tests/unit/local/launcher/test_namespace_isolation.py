"""Mounts of a container are below its root, whatever links lead to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if sys.platform == "linux":
    from trainshed.local.launcher.namespace_isolation import inside


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces")
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/data/x", "data/x"),
        ("/var/run/secrets", "run/secrets"),
        ("/data/up/x", "home/x"),
        ("/data/far/x", "home/x"),
        ("/../../x", "x"),
        ("/data/twice/x", "run/x"),
        ("/data/loop", None),
    ],
)
def test_a_link_leads_where_it_leads_in_the_container(tmp_path: Path, target, expected):
    for folder in ("data", "var", "run", "home"):
        (tmp_path / folder).mkdir()
    links = {"var/run": "/run", "data/up": "../home", "data/far": "../../../../home", "data/twice": "/var/run/."}
    for link, leads_to in {**links, "data/loop": "loop"}.items():
        (tmp_path / link).symlink_to(leads_to)
    if expected is None:
        with pytest.raises(OSError, match="cannot mount at"):
            inside(tmp_path, target)
    else:
        assert inside(tmp_path, target) == tmp_path / expected

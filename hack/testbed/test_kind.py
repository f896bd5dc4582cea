"""The kind cluster's paths on this machine are those of its configuration."""

from __future__ import annotations

import re
from pathlib import Path

from testbed import kind

CONFIGURATION = Path(kind.__file__).with_name("kind.yaml").read_text()


def test_the_audit_log_is_read_where_the_api_server_writes_it():
    (inside,) = re.findall(r"name: audit-log-path\n +value: (\S+)", CONFIGURATION)
    mounts = re.findall(r"hostPath: \./(\S+)\n +containerPath: (\S+)", CONFIGURATION)
    (host,) = (host for host, path in mounts if path == str(Path(inside).parent))
    assert kind.audit_log() == kind.state() / host / Path(inside).name

"""`trainshed render` refuses the jobs that the API server refuses, and the API server accepts its output."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from support.invalid_names import UNKNOWN_FIELDS, WRONG_TYPES
from support.jobs import KINDS, pytorchjob, smallest
from support.kubectl import kubectl
from support.user_client import UserClient
from testbed.control_plane import ControlPlane
from trainshed.cli import cli

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/**/*.yaml"))


def elastic() -> dict:
    """A job with an autoscaler."""
    found = pytorchjob("elastic", Worker=1)
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    found["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 2, "metrics": [metric]}
    return found


TEXTS = {path.stem if path.parent.name != "v2beta1" else "v2beta1": path.read_text() for path in EXAMPLES}
TEXTS |= {kind: yaml.safe_dump(smallest(kind, "a")) for kind in KINDS} | {"autoscaler": yaml.safe_dump(elastic())}


@pytest.mark.parametrize("name", TEXTS)
def test_the_api_server_accepts_what_is_rendered(server: ControlPlane, user: UserClient, name: str):
    result = CliRunner().invoke(cli, ["render", "-n", user.namespace, "-f", "-"], input=TEXTS[name])
    assert result.exit_code == 0, result.stderr
    found = list(yaml.safe_load_all(result.stdout))
    pods = [item for item in found if item["kind"] == "Pod"]
    others = [item for item in found if item["kind"] != "Pod"]
    assert pods
    if others:  # the service account of a launcher has to be there before its pod
        applied = kubectl(server, user, "apply", "-f", "-", text=yaml.safe_dump_all(others))
        assert applied.returncode == 0, applied.stderr
    tried = kubectl(server, user, "apply", "--dry-run=server", "-f", "-", text=result.stdout)
    assert tried.returncode == 0, tried.stderr
    assert tried.stdout.count("(server dry run)") == len(found)


@pytest.mark.parametrize(("job", "path", "meant"), UNKNOWN_FIELDS, ids=[case[1] for case in UNKNOWN_FIELDS])
def test_kubectl_refuses_the_same_unknown_fields(
    server: ControlPlane, user: UserClient, job: dict, path: str, meant: str
):
    done = kubectl(server, user, "create", "--dry-run=server", "-f", "-", text=yaml.safe_dump(job))
    assert done.returncode == 1
    assert f'strict decoding error: unknown field "{path}"' in done.stderr


@pytest.mark.parametrize(("job", "path"), WRONG_TYPES, ids=[case[1] for case in WRONG_TYPES])
def test_kubectl_refuses_the_same_wrong_types(server: ControlPlane, user: UserClient, job: dict, path: str):
    done = kubectl(server, user, "create", "--dry-run=server", "-f", "-", text=yaml.safe_dump(job))
    assert done.returncode == 1
    assert path.rpartition(".")[2] in done.stderr

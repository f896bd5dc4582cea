"""What `trainshed release` says; that it does what it says is tested on a real API server, in the room of the hands."""

from __future__ import annotations

from click.testing import CliRunner

from trainshed.cli import cli


def test_a_cluster_that_cannot_be_reached_is_said_and_fails(tmp_path):
    result = CliRunner().invoke(cli, ["release", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "not all pods could be released: " in result.stderr

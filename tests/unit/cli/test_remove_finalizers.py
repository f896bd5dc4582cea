"""Errors of `trainshed remove-finalizers`; tests/unit/client/test_finalizers.py has its effect on a real API server."""

from __future__ import annotations

from click.testing import CliRunner

from trainshed.cli import cli


def test_a_cluster_that_cannot_be_read_is_an_error(tmp_path):
    result = CliRunner().invoke(cli, ["remove-finalizers", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "cannot remove the finalizer from all pods: " in result.stderr

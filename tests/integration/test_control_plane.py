"""The control plane of these tests withstands what they do to it."""

from __future__ import annotations

from pathlib import Path

from support.user_client import UserClient, eventually
from testbed.control_plane import ControlPlane


def test_the_controllers_work_once_they_have_started_and_survive_an_api_server_that_stops_then(tmp_path: Path):
    with ControlPlane(tmp_path / "plane", controllers=True) as plane:
        assert UserClient(plane.kubeconfig, "default").core("serviceaccounts")
        plane.stop_apiserver()
        plane.start_apiserver()
        user = UserClient(plane.kubeconfig, "later")
        user.make_namespace()
        eventually(lambda: user.core("serviceaccounts"), 60)

"""An upgrade from an older Trainshed and a downgrade to it: jobs go on, and each version keeps the other's records."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from support import FakeKubelet, Operator
from support.jobs import job, tfjob
from support.oldest import archived
from support.pods import uids
from support.user_client import UserClient, eventually
from testbed.control_plane import ControlPlane

from .leaders import writes

pytestmark = pytest.mark.apiserver

ROOT = Path(__file__).parents[2]
#: The first commit with the names of status fields and annotations that are stored today.
OLDER = "68685f6"


@pytest.fixture
def plane(second_server: ControlPlane) -> ControlPlane:
    """A control plane whose operators have one namespace each."""
    return second_server


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The sources of an older Trainshed, if this checkout has a history."""
    subprocess.run(["tar", "-x", "-C", tmp_path], input=archived(OLDER, "operator"), check=True)
    return tmp_path / "operator"


class Shift:
    """One version of the operator after another, each a user of its own."""

    def __init__(self, plane: ControlPlane, user: UserClient, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._plane, self._hand, self._folder, self._patch = plane, user, folder, monkeypatch
        self._turn = 0
        self._now: Operator | None = None

    def begin(self, source: Path) -> None:
        """This version takes over from the one before, which shuts down."""
        if self._now:
            assert self._now.stop() == 0
        self._turn += 1
        home = self._folder / f"turn-{self._turn}"
        home.mkdir()
        self._patch.setenv("PYTHONPATH", str(source))
        kubeconfig = self._plane.kubeconfig_for(self.user, ("system:masters",))
        space = self._hand.namespace
        self._now = Operator(kubeconfig, home, f"--namespace={space}", f"--lease-namespace={space}").start()

    def end(self) -> None:
        """All is over."""
        assert self._now
        assert self._now.stop() == 0
        assert self._now.complaints() == []

    @property
    def user(self) -> str:
        """Return its user on the API server."""
        return f"{self._hand.namespace}-{self._turn}"

    def writes(self) -> list[str]:
        """Return the writes of the current operator so far, without Events."""
        return [one.what for one in writes(self._plane, self.user) if "events" not in one.what]


@pytest.mark.fault("G5")
def test_upgrades_and_downgrades_do_not_disturb_pods(plane: ControlPlane, older: Path, tmp_path: Path, monkeypatch):
    user = UserClient.somewhere(plane.kubeconfig, named="rollout")
    shift = Shift(plane, user, tmp_path, monkeypatch)
    with FakeKubelet(user) as kubelet:
        shift.begin(older)
        user.create(tfjob("ps", restart="ExitCode", Chief=1, PS=1, Worker=2))
        user.create(job("JAXJob", "whole", restart="ExitCode", Worker=2))
        user.create(tfjob("waiting", policy={"suspend": True}, Worker=1))
        eventually(lambda: state(user, "TFJob", "waiting") == "Suspended", 30)
        for turn, source in enumerate((older, ROOT / "operator", older, ROOT / "operator"), 1):
            eventually(lambda: quiet(user), 60)
            before = uids(user.pods())
            if turn > 1:
                shift.begin(source)
                time.sleep(8)
                assert uids(user.pods()) == before, "a change of versions changes no pod"
                written = shift.writes()
                time.sleep(5)
                assert shift.writes() == written, "and nothing is written again and again"
                assert len(written) <= 3, written
            for kind, name in (("TFJob", "ps-worker-1"), ("JAXJob", "whole-worker-0")):
                kubelet.end(name, 137)
                eventually(lambda kind=kind, turn=turn: restarts(user, kind) == turn, 40)
        eventually(lambda: quiet(user), 60)
        kubelet.end("ps-chief-0", 0)
        eventually(lambda: state(user, "TFJob", "ps") == "Succeeded", 30)
        assert state(user, "TFJob", "waiting") == "Suspended"
    shift.end()


def state(user: UserClient, kind: str, name: str) -> str:
    """The type of the last true condition; the older operator stores no `status.state`."""
    found = [one["type"] for one in user.conditions(kind, name).values() if one["status"] == "True"]
    return found[-1] if found else ""


def restarts(user: UserClient, kind: str) -> int:
    """Return how often the replica of this type was restarted."""
    return user.job(kind, "ps" if kind == "TFJob" else "whole")["status"].get("restarts", 0)


def quiet(user: UserClient) -> bool:
    """Return whether both jobs run with all their pods."""
    states = (state(user, "TFJob", "ps"), state(user, "JAXJob", "whole"))
    running = [pod for pod in user.pods() if pod["status"].get("phase") == "Running"]
    return states == ("Running", "Running") and len(running) == 6

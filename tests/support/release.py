"""The release that `make deploy` makes on the test bed, in the hands of Helm 3 or 4."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testbed.binaries import binary

CHART = Path(__file__).parents[2] / "charts" / "trainshed"
NAME, HOME = "trainshed", "trainshed-system"


class Helm:
    """A `helm`, version 3 or 4, on the test bed's cluster and in one namespace, by default the operator's."""

    def __init__(self, version: int, kubeconfig: str, namespace: str = HOME) -> None:
        where = ("--kubeconfig", kubeconfig, "--namespace", namespace)
        self.command = [str(binary(f"helm{version}", "helm")), *where]

    def __call__(self, *words: str) -> str:
        """Return its output; raise an error if it fails."""
        done = subprocess.run([*self.command, *words], check=False, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}"
        return done.stdout

    def values(self) -> str:
        """The values that the release has been given, as JSON."""
        return self("get", "values", NAME, "--output", "json")

    def is_pending(self) -> bool:
        """True if an installation, upgrade or rollback was broken off: no other can begin until it is uninstalled."""
        return self("list", "--pending", "--short") != ""

    def install(self, values: Path) -> str:
        """Install the release again; return Helm's notes."""
        return self("install", NAME, str(CHART), "--values", str(values))

    def upgrade(self, values: Path, *sets: str) -> str:
        """The release with these values, made if it is not there."""
        words = [word for assignment in sets for word in ("--set", assignment)]
        return self("upgrade", "--install", NAME, str(CHART), "--values", str(values), *words)

"""The docker engine that the test bed installs, starts and stops by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed import debian, docker

#: Installs a stub for each package; each stub appends its arguments to a file.
APT = """#!/bin/sh
for word in "$@"; do case "$word" in
    docker.io) programs="docker dockerd" ;; iproute2) programs="ip" ;; *) programs="" ;;
esac; for program in $programs; do
    printf '#!/bin/sh\\necho %s "$@" >> {said}\\n' "$program" > {folder}/"$program"; /bin/chmod +x {folder}/"$program"
done; done
"""


class Engine:
    """A process that is started and stopped without doing anything."""

    pid = 0

    def start(self, *_command: object, **_options: object) -> None:
        self.pid = 1

    def wait(self, *_arguments: object) -> None:
        pass

    def stop(self, **_options: object) -> None:
        self.pid = 0


def test_an_engine_starts_and_stops_on_a_machine_without_docker_and_iproute2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, said, engine = tmp_path / "programs", tmp_path / "said", Engine()
    programs.mkdir()
    (programs / "apt-get").write_text(APT.format(folder=programs, said=said))
    (programs / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    for module in (docker, debian):
        monkeypatch.setattr(module, "search_path", lambda: str(programs))
        monkeypatch.setattr(module, "state", lambda: tmp_path)
    monkeypatch.setattr(debian.os, "geteuid", lambda: 0)
    monkeypatch.setattr(docker, "answers", lambda: False)
    monkeypatch.setattr(docker, "_process", lambda: engine)
    docker.start()
    docker.stop()
    assert said.read_text().splitlines()[-1] == "ip link delete docker0"

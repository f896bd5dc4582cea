"""The manifest for krew has all that krew wants to know of a release."""

from __future__ import annotations

import hashlib

import pytest
import yaml
from click.testing import CliRunner

import krew

URL = "https://example.com/v1.2.3/"


@pytest.fixture
def folder(tmp_path):
    for name in ("x_linux_amd64.tar.gz", "x_darwin_arm64.zip", "y_linux_amd64.zip", "x_plan9_amd64.zip", "x.tar.gz"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_each_archive_has_its_platform_and_its_digest(folder):
    names = ["x_linux_amd64.tar.gz", "x_darwin_arm64.zip"]
    done = CliRunner().invoke(krew.main, ["1.2.3", URL, *(str(folder / name) for name in names)])
    assert done.exit_code == 0, done.output
    found = yaml.safe_load(done.output)
    assert (found["metadata"], found["spec"]["version"]) == ({"name": "trainshed"}, "v1.2.3")
    assert [(one["selector"]["matchLabels"], one["uri"], one["sha256"]) for one in found["spec"]["platforms"]] == [
        ({"os": system, "arch": processor}, f"{URL}{name}", hashlib.sha256(name.encode()).hexdigest())
        for system, processor, name in (("darwin", "arm64", names[1]), ("linux", "amd64", names[0]))
    ]


def test_texts_are_blocks_of_short_lines_as_in_the_index_of_krew(folder):
    done = CliRunner().invoke(krew.main, ["1.2.3", URL, str(folder / "x_linux_amd64.tar.gz")])
    for name, text in (("description", krew.DESCRIPTION), ("caveats", krew.CAVEATS)):
        block = "".join(f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True))
        assert f"  {name}: |\n{block}" in done.output
        assert max(map(len, text.splitlines())) <= 80
    assert len(krew.SHORT) <= 50


@pytest.mark.parametrize(
    ("version", "names", "problem"),
    [
        ("v1.2.3", ["x_linux_amd64.tar.gz"], "v1.2.3 is no version"),
        ("1.2", ["x_linux_amd64.tar.gz"], "1.2 is no version"),
        ("1.2.3", ["x_plan9_amd64.zip"], "x_plan9_amd64.zip does not end in a platform"),
        ("1.2.3", ["x.tar.gz"], "x.tar.gz does not end in a platform"),
        ("1.2.3", ["x_linux_amd64.tar.gz", "y_linux_amd64.zip"], "y_linux_amd64.zip is the second archive"),
    ],
)
def test_what_krew_would_not_take_is_refused(folder, version, names, problem):
    done = CliRunner().invoke(krew.main, [version, URL, *(str(folder / name) for name in names)])
    assert (done.exit_code, problem in done.output) == (1, True), done.output

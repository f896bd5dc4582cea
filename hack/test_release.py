"""A release is refused unless git and the changelog agree on it, and its archives depend on their content alone."""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from release import changelog, image, packages, publish, repository
from testbed import archives

CHANGELOG = """# Changelog

## [0.2.0] - 2026-11-29

### Added

- One thing ([more](docs/a.md#b)),
  in two lines.
- Another.

### Security

- A third: [elsewhere](https://example.com).

## [0.1.0] - Not published

- Old.
"""


def git(root: Path, *words: str) -> None:
    settings = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    subprocess.run(["git", "-C", root, *settings, *words], check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one commit with a changelog."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "x")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "x@example.com")
    folder = tmp_path / "root"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "CHANGELOG.md").write_text(CHANGELOG)
    (folder / ".gitignore").write_text("build/\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    return folder


@pytest.mark.parametrize("version", ["v0.2.0", "0.2", "0.2.0.1", "00.2.0", "0.2.0-rc.1", "0.2.0rc0", "latest", "--out"])
def test_only_a_version_is_one(root, version):
    with pytest.raises(repository.Refused, match="is no version"):
        repository.check(root, version)


@pytest.mark.parametrize(
    ("version", "said"),
    [("0.3.0", "CHANGELOG.md has no entry for 0.3.0"), ("0.1.0", "has no date for 0.1.0, but Not published")],
)
def test_a_version_needs_an_entry_with_a_date(root, version, said):
    with pytest.raises(repository.Refused, match=said):
        repository.check(root, version)


def test_changes_that_are_not_committed_are_refused(root):
    (root / "new").touch()
    with pytest.raises(repository.Refused, match=r"not committed:\n\?\? new"):
        repository.check(root, "0.2.0")


def test_a_commit_gets_one_tag_and_a_tag_stays_at_its_commit(root):
    for _ in range(2):  # a release that was broken off is made again
        repository.check(root, "0.2.0")
        repository.tagged(root, "0.2.0")
    (root / "CHANGELOG.md").write_text(CHANGELOG.replace("0.2.0", "0.2.1"))
    with pytest.raises(repository.Refused, match="not committed"):
        repository.check(root, "0.2.1")
    git(root, "checkout", "-q", ".")
    git(root, "commit", "-q", "--allow-empty", "-m", "two")
    with pytest.raises(repository.Refused, match=r"0\.2\.0 exists: v0\.2\.0 is another commit"):
        repository.check(root, "0.2.0")
    git(root, "tag", "v0.1.9")
    git(root, "tag", "-d", "v0.2.0")
    with pytest.raises(repository.Refused, match=r"this commit is v0\.1\.9 already"):
        repository.check(root, "0.2.0")


def test_the_tree_of_a_release_has_only_what_is_committed_and_its_time(root):
    (root / "build").mkdir()
    (root / "build" / "left-over").touch()
    repository.tagged(root, "0.2.0")
    release = repository.begin(root, "0.2.0")
    names = {path.name for path in release.tree.iterdir()}
    assert names == {".git", ".gitignore", "CHANGELOG.md"}
    assert (release.tree / "CHANGELOG.md").stat().st_mtime == release.time == repository.time_of(root)


def test_the_notes_have_the_entry_with_links_to_the_tag():
    said = changelog.notes(CHANGELOG, "0.2.0", "https://example.com/v0.2.0")
    assert "([more](https://example.com/v0.2.0/docs/a.md#b))" in said
    assert "[elsewhere](https://example.com)" in said
    assert "Old" not in said


def test_artifact_hub_gets_a_sentence_for_each_change():
    assert changelog.changes(changelog.entry(CHANGELOG, "0.2.0")) == [
        {"kind": "added", "description": "One thing (more), in two lines."},
        {"kind": "added", "description": "Another."},
        {"kind": "security", "description": "A third: [elsewhere](https://example.com)."},
    ]


def archive_of(path: Path, names: list[str], moment: float) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.uid, entry.uname = 1, moment, int(moment), f"user{moment}"
            tar.addfile(entry, io.BytesIO(b"x"))
    return path


def test_an_archive_is_the_same_whoever_packs_it_when(tmp_path):
    found = [archive_of(tmp_path / "a.tar.gz", ["a", "b"], 1.5), archive_of(tmp_path / "b.tar.gz", ["b", "a"], 2.5)]
    assert found[0].read_bytes() != found[1].read_bytes()
    for path in found:
        packages.uniform(path, 1_000_000_000)
    assert found[0].read_bytes() == found[1].read_bytes()


def test_images_of_two_processors_are_one_archive_whose_digests_are_right(tmp_path):
    saved = {}
    for processor in ("amd64", "arm64"):
        layer = tmp_path / f"{processor}.tar"
        with tarfile.open(layer, "w") as tar:
            tar.addfile(tarfile.TarInfo(processor))
        saved[processor] = tmp_path / f"saved-{processor}.tar"
        archives.write(saved[processor], [archives.Image("trainshed:0.2.0", (layer,), ("run",))])
    digest = image.write(saved, tmp_path / "image.tar", "0.2.0", 1)
    assert (
        digest == image.write(saved, tmp_path / "again.tar", "0.2.0", 1) == image.index_digest(tmp_path / "image.tar")
    )
    assert (tmp_path / "image.tar").read_bytes() == (tmp_path / "again.tar").read_bytes()
    with tarfile.open(tmp_path / "image.tar") as tar:
        contents = {name: tar.extractfile(name).read() for name in tar.getnames()}
    blobs = {name.rpartition("/")[2]: content for name, content in contents.items() if name.startswith("blobs/")}
    assert {hashlib.sha256(content).hexdigest() for content in blobs.values()} == blobs.keys()
    index = json.loads(blobs[digest.removeprefix("sha256:")])
    assert [one["platform"]["architecture"] for one in index["manifests"]] == ["amd64", "arm64"]
    for one in index["manifests"]:
        manifest = json.loads(blobs[one["digest"].removeprefix("sha256:")])
        for part in (manifest["config"], *manifest["layers"]):
            assert len(blobs[part["digest"].removeprefix("sha256:")]) == part["size"]


def test_what_is_published_is_signed_and_the_release_comes_last(tmp_path):
    for name in ("trainshed-0.2.0rc1-image.tar", "trainshed-0.2.0-rc.1.tgz", "SHA256SUMS", "NOTES.md", "install.yaml",
                 "trainshed-0.2.0rc1-py3-none-any.whl", "trainshed-0.2.0rc1.tar.gz"):  # fmt: skip
        (tmp_path / name).touch()
    (tmp_path / "image-digest").write_text("example.com/a/trainshed@sha256:1234\n")
    done = CliRunner().invoke(publish.main, ["--dist", str(tmp_path), "--dry-run"])
    assert done.exit_code == 0, done.output
    commands = [shlex.split(line) for line in done.output.splitlines()]
    assert [command[0] for command in commands[:-1]] == ["skopeo", "cosign", "helm", "cosign", str(publish.PYTHON)]
    assert commands[0][-1] == "docker://example.com/a/trainshed:0.2.0rc1"
    assert commands[1][-1] == "example.com/a/trainshed@sha256:1234"
    assert commands[-1][:4] == ["gh", "release", "create", "v0.2.0rc1"]
    assert "--prerelease" in commands[-1]
    assert str(tmp_path / "SHA256SUMS.sigstore.json") in commands[-1]


def test_an_image_of_one_processor_is_not_published(tmp_path):
    saved, archive = tmp_path / "saved.tar", tmp_path / "trainshed-0.2.0-image.tar"
    archives.write(saved, [archives.Image("trainshed:0.2.0", (), ("run",))])
    image.write({"amd64": saved}, archive, "0.2.0", 1)
    done = CliRunner().invoke(publish.main, ["--dist", str(tmp_path)])
    assert done.exit_code == 1
    assert "is for linux/amd64 alone, and not for linux/amd64,linux/arm64" in done.output
    image.write({"arm64": saved, "amd64": saved}, archive, "0.2.0", 1)
    assert image.platforms(archive) == image.PLATFORMS

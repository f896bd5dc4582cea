"""Images without a registry: those that a manifest needs, and archives that docker, kind and containerd load."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from testbed import archives, hollow, horovod, images
from testbed.archives import Image
from testbed.kind import _check_disk, _merged
from testbed.restricted_runc import option, restrict
from testbed.steps import StepFailed

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_short_name_and_the_full_one_are_the_same_image():
    manifest = "image: python:3.11-slim\n  - image: 'tensorflow/tensorflow:2.21.0'\n    image: ghcr.io/some/other:1\n"
    assert images.named(manifest) == [images.PYTHON, images.TENSORFLOW]


def test_every_image_of_the_examples_has_a_stand_in():
    for path in EXAMPLES.glob("*/*.yaml"):
        assert images.named(path.read_text()), path.name


def test_what_takes_long_to_compile_is_made_for_those_who_name_it_only():
    assert images.HOROVOD not in images.common()
    assert {images.HOROVOD, *images.common()} == set(images.STAND_INS)
    assert images.named((EXAMPLES / "mpi" / "horovod.yaml").read_text()) == [images.HOROVOD]


def test_images_that_no_registry_has_have_a_dockerfile():
    for name, path in images.DOCKERFILES.items():
        assert name in images.STAND_INS
        assert (EXAMPLES / path).is_file()


def test_the_stand_in_of_horovod_is_made_of_what_its_dockerfile_names():
    words = re.split(r"[\s\"]+", (EXAMPLES / images.DOCKERFILES[images.HOROVOD]).read_text())
    settings = [f"{name}={value}" for name, value in horovod.SETTINGS.items()]
    wanted = (*horovod.COMPILER_PACKAGES, *horovod.REQUIREMENTS, horovod.RELEASE, *settings)
    assert [word for word in wanted if word not in words] == []


def test_an_archive_holds_each_layer_once_and_every_image_by_its_name(tmp_path: Path):
    below, above = tmp_path / "below.tar", tmp_path / "above.tar"
    below.write_bytes(b"1" * 100)
    above.write_bytes(b"2" * 100)
    wanted = [Image("a.io/x:1", (below,), ("sh",)), Image("a.io/x:2", (below, above), entrypoint=("run",))]
    archives.write(tmp_path / "archive.tar", wanted)
    with tarfile.open(tmp_path / "archive.tar") as tar:
        names = tar.getnames()
        read = lambda name: json.load(tar.extractfile(name))  # noqa: E731 - called while the archive is open
        manifest = read("manifest.json")
        configs = [read(entry["Config"]) for entry in manifest]
        assert names[0] == "repositories", "kind reads what comes first"
        assert read("repositories")["a.io/x"].keys() == {"1", "2"}
    assert [entry["RepoTags"] for entry in manifest] == [["a.io/x:1"], ["a.io/x:2"]]
    layers = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}/layer.tar" for path in (below, above)]
    assert [entry["Layers"] for entry in manifest] == [layers[:1], layers]
    assert sorted(name for name in names if name.endswith("layer.tar")) == sorted(layers)
    assert [config["config"]["Cmd"] for config in configs] == [["sh"], []]
    assert configs[1]["config"]["Entrypoint"] == ["run"]


def test_a_layer_that_was_made_again_has_another_digest(tmp_path: Path):
    layer = tmp_path / "layer.tar"
    layer.write_bytes(b"old")
    archives.write(tmp_path / "a.tar", [Image("x:1", (layer,))])
    layer.with_suffix(".sha256").touch()
    layer.unlink()
    layer.write_bytes(b"new")
    archives.write(tmp_path / "b.tar", [Image("x:1", (layer,))])
    with tarfile.open(tmp_path / "b.tar") as tar:
        (entry,) = json.load(tar.extractfile("manifest.json"))
    assert entry["Layers"] == [f"{hashlib.sha256(b'new').hexdigest()}/layer.tar"]


def test_a_container_asks_for_nothing_that_root_does_not_have():
    process = {
        "capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_RESOURCE"], "ambient": None},
        "rlimits": [{"type": "RLIMIT_NOFILE"}],
        "oomScoreAdj": -999,
    }
    everything_but_resource = (1 << 41) - 1 - (1 << 24)
    restrict(process, everything_but_resource)
    assert process == {"capabilities": {"bounding": ["CAP_CHOWN"], "ambient": []}, "oomScoreAdj": 0}


def test_the_options_of_runc_are_found_in_either_form():
    assert option(["create", "--bundle", "/b", "id"], "--bundle", "-b") == "/b"
    assert option(["exec", "--process=/p", "id"], "--process", "-p") == "/p"
    assert option(["exec", "id"], "--process", "-p") is None


def test_configurations_are_merged_by_key_and_lists_are_put_together():
    below = {"networking": {"a": 1}, "patches": ["x"], "kind": "Cluster"}
    above = {"networking": {"b": 2}, "patches": ["y"], "more": {}}
    merged = {"networking": {"a": 1, "b": 2}, "patches": ["x", "y"], "kind": "Cluster", "more": {}}
    assert _merged(below, above) == merged


def test_without_room_on_the_disk_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    layer = tmp_path / "layer.tar"
    layer.write_bytes(b"0" * 1000)
    monkeypatch.setenv("TRAINSHED_STATE", str(tmp_path))
    for free, fits in ((5000, True), (4999, False)):
        monkeypatch.setattr("shutil.disk_usage", lambda _path, free=free: SimpleNamespace(free=free))
        if fits:
            _check_disk([layer])
        else:
            with pytest.raises(StepFailed, match="GB are free"):
                _check_disk([layer])


LIBRARY = """
int answer(void) { return 42; }
int table[1000] = {7};
__attribute__((used)) static char weight[2000000] = {1};
void *_ZNSt13runtime_errorD1Ev(void) { return weight; }
"""


def test_of_a_hollow_library_the_names_are_left_and_what_is_linked_to_it_starts(tmp_path: Path):
    source, library = tmp_path / "library.c", tmp_path / "libx.so.1"
    source.write_text(LIBRARY)
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libx.so.1", "-o", str(library), str(source)]
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        pytest.skip("no C compiler here")
    hollow.out(library, tmp_path / "log")
    assert library.stat().st_size < hollow.SMALL
    program = (
        "import ctypes, sys; x = ctypes.CDLL(sys.argv[1]); print(x.answer(), hasattr(x, '_ZNSt13runtime_errorD1Ev'))"
    )
    command = [sys.executable, "-c", program, str(library), "_ZNSt13runtime_errorD1Ev"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "False"]
    assert [path.name for path in tmp_path.glob("libx*")] == ["libx.so.1"]

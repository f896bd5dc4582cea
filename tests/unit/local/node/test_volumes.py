"""Volumes of local runs stay below their folders, whatever their names are and whatever containers have left there."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.pod_names import ACCEPTED, TEXTS, pods
from support.virtual_time import in_virtual_time, now
from trainshed.local.cluster import LocalCluster
from trainshed.local.differences import refused
from trainshed.local.node.downward import NodeFacts
from trainshed.local.node.environment import ConfigError, EnvironmentResolver, PodFacts
from trainshed.local.node.volumes import ANY_USER, OWN_USER, Volume, Volumes, misleading, mounts
from trainshed.local.stored_objects import CONFIG_MAP, SECRET

NODE = NodeFacts("node")
FILES = {"configMap": {"name": "c", "defaultMode": 0o440, "items": [{"key": "k", "path": "deep/er/file"}]}}
LINK = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "link/x"}]}


def volumes(state: Path, modes=OWN_USER, key: str = "k") -> Volumes:
    """Volumes with a ConfigMap c and a Secret s that have this key."""
    cluster = LocalCluster(now, ())

    async def fill() -> None:
        for kind, field, name in ((CONFIG_MAP, "data", "c"), (SECRET, "stringData", "s")):
            metadata = {"name": name, "namespace": "ml"}
            cluster.apply({"kind": kind, "metadata": metadata, field: {key: "new"}})

    in_virtual_time(fill())
    return Volumes(EnvironmentResolver(cluster.find), state, modes=modes)


def facts(*found: dict, namespace: str = "ml") -> PodFacts:
    named = [{"name": "v", **volume} for volume in found]
    metadata = {"name": "pod", "namespace": namespace, "uid": "u"}
    return PodFacts({"metadata": metadata, "spec": {"volumes": named, "containers": [LINK]}}, "127.0.0.1", NODE)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.mark.parametrize(
    ("modes", "volume", "folders"),
    [
        (OWN_USER, 0o1777, 0o755),
        (OWN_USER, 0o2770, 0o2770),
        (OWN_USER, 0o700, 0o700),
        (ANY_USER, 0o1777, 0o1777),
        (ANY_USER, 0o2770, 0o2770),
    ],
)
def test_other_users_cannot_write_in_a_folder_for_a_subpath_unless_a_replica_may_be_one(
    tmp_path, modes, volume, folders
):
    host = tmp_path / "host"
    host.mkdir()
    host.chmod(volume)
    found = volumes(tmp_path / "state", modes).make(facts({"hostPath": {"path": str(host)}}), tmp_path / "pods" / "u")
    container = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a/b"}]}
    (mount,) = mounts(container, found, {})
    assert mount.source == host / "a" / "b"
    assert (mode(host / "a"), mode(host / "a" / "b")) == (folders, folders)


@pytest.mark.parametrize(
    ("modes", "expected"),
    [(OWN_USER, (0o700, 0o700, 0o755, 0o644, 0o600)), (ANY_USER, (0o755, 0o777, 0o777, 0o644, 0o644))],
)
def test_the_modes_are_for_the_users_of_the_replicas(tmp_path, modes, expected):
    os.umask(previous := os.umask(0o077))
    found = volumes(tmp_path / "state", modes).make(
        facts(
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "e", "emptyDir": {}},
            {"name": "p", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "o", "secret": {"secretName": "s", "defaultMode": 0o400}},
            {"name": "z", "projected": {"defaultMode": 0, "sources": [{"secret": {"name": "s"}}]}},
        ),
        tmp_path / "pods" / "uid",
    )
    path = {name: volume.path for name, volume in found.items()}
    assert os.umask(previous) == previous
    assert tuple(map(mode, (path["c"], path["e"], path["p"], path["c"] / "k", path["s"] / "k"))) == expected
    assert mode(path["o"] / "k") == 0o400
    assert mode(path["z"] / "k") == 0
    assert mode(tmp_path / "pods" / "uid") == 0o700
    assert {name for name, volume in found.items() if volume.read_only} == {"c", "s", "o", "z"}


def test_an_update_never_goes_through_what_a_container_has_put_in_its_way(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "file").write_text("precious")
    found, pod = volumes(tmp_path / "state"), facts(FILES)
    folder = found.make(pod, tmp_path / "pod")["v"].path
    for planted in ("deep/er/file", "deep/er", "deep"):
        target = folder / planted
        shutil.rmtree(target) if target.is_dir() else target.unlink()
        target.symlink_to(tmp_path / "home" / ("file" if planted.endswith("file") else ""))
        found.refresh(pod, tmp_path / "pod")
        assert (folder / "deep/er/file").read_text() == "new"
        assert not target.is_symlink()
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["file"]
    assert (tmp_path / "home" / "file").read_text() == "precious"


@pytest.mark.parametrize("target", ["../../..", "/etc", "../other", "link", "x/../../../.."])
def test_a_link_in_a_claim_does_not_lead_out_of_it(tmp_path, target):
    claim = tmp_path / "claims" / "ml" / "data"
    claim.mkdir(parents=True)
    (claim / "link").symlink_to(target)
    (claim / "x").mkdir()
    pod = facts({"persistentVolumeClaim": {"claimName": "data"}})
    found = volumes(tmp_path).make(pod, tmp_path / "pod")
    with pytest.raises(ConfigError, match='failed to prepare subPath for volumeMount "v" of container "main"'):
        list(mounts(LINK, found, {}))
    assert [line.partition(":")[0] for line in misleading([pod.pod], tmp_path)] == [
        "spec.containers[0].volumeMounts[0].subPath"
    ]


def test_a_link_within_a_claim_is_followed(tmp_path):
    claim = tmp_path / "claims" / "ml" / "data"
    (claim / "runs" / "7" / "x").mkdir(parents=True)
    (claim / "link").symlink_to("runs/latest")
    (claim / "runs" / "latest").symlink_to("../runs/7")
    pod = facts({"persistentVolumeClaim": {"claimName": "data"}})
    (mount,) = mounts(LINK, volumes(tmp_path).make(pod, tmp_path / "pod"), {})
    assert mount.source == claim / "runs" / "7" / "x"
    assert misleading([pod.pod], tmp_path) == []


@pytest.mark.parametrize("link", ["claims", "claims/ml", "claims/ml/data"])
def test_a_claim_that_is_a_link_is_refused(tmp_path, link):
    (tmp_path / "home").mkdir()
    (tmp_path / "state" / link).parent.mkdir(parents=True)
    (tmp_path / "state" / link).symlink_to(tmp_path / "home")
    pod = facts({"persistentVolumeClaim": {"claimName": "data"}})
    with pytest.raises(ConfigError, match=r'volume "v": claims.*: is a symbolic link'):
        volumes(tmp_path / "state").make(pod, tmp_path / "pod")
    (problem,) = misleading([pod.pod], tmp_path / "state")
    assert "persistentVolumeClaim.claimName: Invalid value" in problem
    assert list((tmp_path / "home").iterdir()) == []


def test_a_stand_in_of_a_host_path_is_never_behind_a_link(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o1777)
    shared.chmod(0o1777)
    (shared / "a").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    outer = {"hostPath": {"path": str(shared / "a"), "type": "DirectoryOrCreate"}}
    made = volumes(tmp_path / "state").make(facts(outer), tmp_path / "pod")["v"].path
    (made / "b").symlink_to(tmp_path)
    inner = {"hostPath": {"path": str(shared / "a" / "b" / "c"), "type": "DirectoryOrCreate"}}
    with pytest.raises(ConfigError, match="is a symbolic link"):
        volumes(tmp_path / "state").make(facts(inner), tmp_path / "pod")
    assert not (tmp_path / "c").exists()


def test_a_host_path_that_another_user_makes_first_is_not_used(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)  # what is made now is another's
    wanted = {"hostPath": {"path": str(shared / "a"), "type": "DirectoryOrCreate"}}
    made = volumes(tmp_path / "state").make(facts(wanted), tmp_path / "pod")["v"].path
    assert made == tmp_path / "state/host-paths" / str(shared / "a").strip("/")


def give_away(path: Path, monkeypatch) -> None:
    """Make a path another user's: root can, and for others all files are another user's from now on."""
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


@pytest.mark.parametrize(
    ("shared", "foreign", "subpath"),
    [
        (0o1777, "out", "out"),
        (0o777, "out", "out/new"),
        (0o1777, "own/deep", "own/deep/er"),
        (0o1777, "link", "link"),
        (0o1777, "target", "link"),
        (0o755, "out", "out"),
    ],
)
def test_a_part_of_a_host_path_that_another_user_has_put_there_is_refused(
    tmp_path, monkeypatch, shared, foreign, subpath
):
    root = tmp_path / "shared"
    for folder in ("out", "own/deep", "target"):
        (root / folder).mkdir(parents=True)
    (root / "link").symlink_to("target")
    root.chmod(shared)
    pod = facts({"hostPath": {"path": str(root)}})
    container = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": subpath}]}
    pod.pod["spec"]["containers"] = [container]
    made = volumes(tmp_path / "state").make(pod, tmp_path / "pod")
    give_away(root / foreign, monkeypatch)
    if shared == 0o755:
        assert misleading([pod.pod], tmp_path / "state") == []
        assert [mount.source for mount in mounts(container, made, {})] == [root / subpath]
        return
    sentence = rf"{subpath}.*: {root}/\S+ belongs to another user, who has put it in a folder of all users"
    (problem,) = misleading([pod.pod], tmp_path / "state")
    assert re.match(rf"spec.containers.0..volumeMounts.0..subPath: Invalid value: .{sentence}", problem)
    with pytest.raises(ConfigError, match=sentence):
        list(mounts(container, made, {}))
    assert not (root / "out/new").exists()


@pytest.mark.parametrize("umask", [0, 0o77])
@pytest.mark.parametrize(("kind", "last"), [("DirectoryOrCreate", 0o755), ("FileOrCreate", 0o644)])
def test_a_host_path_is_made_with_the_modes_of_a_kubelet_whatever_the_umask_is(tmp_path, umask, kind, last):
    path = tmp_path / "a" / "b" / "c"
    before = os.umask(umask)
    try:
        volumes(tmp_path / "state").make(facts({"hostPath": {"path": str(path), "type": kind}}), tmp_path / "pod")
    finally:
        os.umask(before)
    assert [mode(found) for found in (path, path.parent, path.parent.parent)] == [last, 0o755, 0o755]


@pytest.mark.parametrize(
    ("kind", "found", "what"),
    [
        ("Directory", "file", "directory"),
        ("DirectoryOrCreate", "file", "directory"),
        ("File", "folder", "file"),
        ("File", "pipe", "file"),
        ("FileOrCreate", "folder", "file"),
        ("Socket", "file", "socket file"),
        ("CharDevice", "pipe", "character device"),
        ("BlockDevice", "/dev/null", "block device"),
        ("CharDevice", "/dev/null", ""),
        ("File", "file", ""),
        ("DirectoryOrCreate", "folder", ""),
        ("FileOrCreate", "new", ""),
        ("", "pipe", ""),
    ],
)
def test_a_host_path_has_the_type_that_the_job_names(tmp_path, kind, found, what):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    pod = facts({"hostPath": {"path": str(tmp_path / found), "type": kind}})
    problems = list(refused([pod.pod], {}, runtime="docker", path=""))
    if not what:
        assert problems == []
        assert volumes(tmp_path / "state").make(pod, tmp_path / "pod")["v"].path == tmp_path / found
        return
    text = f"hostPath type check failed: {tmp_path / found} is not a {what}"
    assert problems == [f"pod pod: spec.volumes[0].hostPath: Invalid value: {text}"]
    with pytest.raises(ConfigError, match=text):
        volumes(tmp_path / "state").make(pod, tmp_path / "pod")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$(UP)", r"unable to provision SubPath `\.\./\.\.`: must not contain '\.\.'"),
        ("$(ROOT)x", "unable to provision SubPath `/x`: must be a relative path"),
        ("$(NO)/a/$(EMPTY)", "missing value for EMPTY, NO"),
        ("$(FILE)/x", "failed to prepare subPath .*: Not a directory"),
        ("$(LONG)", "File name too long"),
        ("$(ZERO)", "must not contain a zero byte"),
    ],
)
def test_a_subpath_from_variables_is_checked_when_it_is_known(tmp_path, text, message):
    (tmp_path / "file").touch()
    env = {"UP": "../..", "ROOT": "/", "EMPTY": "", "FILE": "file", "LONG": "a" * 300, "ZERO": "a\0"}
    container = {"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": text}]}
    with pytest.raises(ConfigError, match=message):
        list(mounts(container, {"v": Volume(tmp_path)}, env))


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": path} for path in ("a", "a/b")]}}, "below a file"),
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": "."}]}}, "is no file"),
        ({"configMap": {"name": "c", "items": [{"key": "k", "path": "a" * 300}]}}, "File name too long"),
    ],
)
def test_a_path_that_cannot_be_written_is_a_problem_of_the_pod(tmp_path, volume, message):
    with pytest.raises(ConfigError, match=message):
        volumes(tmp_path / "state").make(facts(volume), tmp_path / "pod")


def snapshot(top: Path, *own: Path) -> dict[str, tuple]:
    found = {}
    for path in (top, *sorted(top.rglob("*"))):
        if not any(path == folder or folder in path.parents for folder in own):
            status = path.lstat()
            found[str(path)] = status.st_mode, status.st_uid, path.read_bytes() if path.is_file() else b""
    return found


@pytest.mark.parametrize(
    "key", ["../../home/.bashrc", "/etc/x", "..", "a/../../b", "", ".", "x\ny", "\0", "é" * 200, "..data", "k/below"]
)
def test_a_key_never_leads_out_of_its_volume(tmp_path, key):
    before = snapshot(tmp_path)
    with contextlib.suppress(ConfigError, ValueError):
        volumes(tmp_path / "state", key=key).make(facts({"secret": {"secretName": "s"}}), tmp_path / "pod")
    assert snapshot(tmp_path, tmp_path / "pod") == before


@pytest.mark.parametrize("body", [body for body in ACCEPTED if "hostPath" not in str(body)])
def test_what_the_api_server_accepts_is_mounted(tmp_path, body):
    pod = PodFacts({**body, "metadata": {"name": "pod", "namespace": "ml", "uid": "u"}}, "127.0.0.1", NODE)
    made = volumes(tmp_path / "state").make(pod, tmp_path / "pod")
    found = list(mounts(body["spec"]["containers"][0], made, {"A": "a", "B": "b"}))
    assert len(found) == len(body["spec"]["containers"][0]["volumeMounts"])
    assert all(mount.source.exists() for mount in found)


@pytest.mark.slow
@settings(max_examples=200)
@given(pods(), TEXTS, TEXTS, TEXTS, st.booleans())
def test_no_pod_reaches_what_is_outside_also_if_nothing_was_checked(body, namespace, claim, subpath, any_user):
    top = Path(tempfile.mkdtemp())
    try:
        (top / "home" / ".ssh").mkdir(parents=True)
        (top / "home" / ".bashrc").write_text("precious")
        (top / "b").write_text("precious")
        state, folder = top / "x" / "state", top / "x" / "pods" / "uid"
        for planted in (state / "claims" / "ml" / "a", folder / "a"):
            planted.mkdir(parents=True)
            (planted / "a").symlink_to(top / "home")
            (planted / "a-b").symlink_to("../../../../home")
        before = snapshot(top, state, folder)
        spec = body["spec"]
        spec["volumes"] = [item for item in spec["volumes"] if "hostPath" not in item]
        spec["volumes"].append({"name": "claim", "persistentVolumeClaim": {"claimName": claim}})
        spec["containers"][0]["volumeMounts"].append({"name": "claim", "mountPath": "/c", "subPath": subpath})
        body["metadata"] |= {"namespace": namespace or "ml", "uid": "u"}
        found, pod = volumes(state, ANY_USER if any_user else OWN_USER), PodFacts(body, "127.0.0.1", NODE)
        made: dict[str, Volume] = {}
        with contextlib.suppress(ConfigError, ValueError):  # a zero byte, which was refused before
            made = found.make(pod, folder)
            found.refresh(pod, folder)
        mounted = []
        with contextlib.suppress(ConfigError, ValueError, KeyError):
            mounted = list(mounts(spec["containers"][0], made, {}))
        assert all(mount.source.is_relative_to(state) or mount.source.is_relative_to(folder) for mount in mounted)
        assert all(mount.source == mount.source.resolve() for mount in mounted)
        assert snapshot(top, state, folder) == before
    finally:
        shutil.rmtree(top)

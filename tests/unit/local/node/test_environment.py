"""Environments and volumes are resolved as the kubelet does."""

from __future__ import annotations

import base64
import os
import time
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise

import pytest

from support.virtual_time import in_virtual_time
from trainshed.local.cluster import LocalCluster
from trainshed.local.differences import foreign_host_paths
from trainshed.local.node.downward import NodeFacts
from trainshed.local.node.environment import ConfigError, EnvironmentResolver, Gpus, PodFacts, expand, references
from trainshed.local.node.host_paths import cannot_create
from trainshed.local.node.volumes import Volume, Volumes, mounts
from trainshed.local.runtimes.protocol import StartFailed
from trainshed.local.stored_objects import CONFIG_MAP, SECRET

OF_NODE = {"cpu": Decimal(8), "memory": Decimal(32 << 30), "ephemeral-storage": Decimal(100 << 30)}
METADATA = {"name": "pod", "namespace": "ml", "uid": "u", "labels": {"team": "a"}}


def resolver() -> EnvironmentResolver:
    cluster = LocalCluster(lambda: datetime.fromtimestamp(0, UTC), ())

    async def fill() -> None:
        for kind, name, data in (
            (CONFIG_MAP, "settings", {"data": {"rate": "0.1", "depth": "3"}, "binaryData": {"raw": "AP8="}}),
            (SECRET, "binary", {"data": {"raw": base64.b64encode(b"a\xe2\x82\xffb").decode()}}),
            (SECRET, "long", {"stringData": {"k": "x" * 120_000}}),
            (SECRET, "null", {"data": {"raw": "YQBi"}}),
            (CONFIG_MAP, "empty", {"data": {"A": None}}),
            (SECRET, "empty", {"data": {"A": None}, "stringData": {"B": None}}),
            (SECRET, "broken", {"data": {"k": "abc"}}),
            (SECRET, "keys", {"data": {"token": base64.b64encode(b"secret").decode()}, "stringData": {"user": "me"}}),
        ):
            cluster.apply({"kind": kind, "metadata": {"name": name, "namespace": "ml"}, **data})

    in_virtual_time(fill())
    return EnvironmentResolver(cluster.find)


def facts(**spec) -> PodFacts:
    return PodFacts(
        {"metadata": METADATA, "spec": {"containers": [], **spec}},
        "198.18.0.2",
        NodeFacts("node", "198.18.0.1", OF_NODE),
    )


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A) $(B)$(C)", "1 2$(C)"),
        ("$$(A) $A $", "$(A) $A $"),
        ("$$$(A) $$$$(A)", "$1 $$(A)"),
        ("$(A", "$(A"),
        ("$(C$(A))", "$(C$(A))"),
        ("$($(A)", "$($(A)"),
        ("$x$(A)$", "$x1$"),
        ("$()", "$()"),
        ("$(A)$$ $(", "1$ $("),
    ],
)
def test_references_are_expanded(text, expanded):
    assert expand(text, {"A": "1", "B": "2"}) == expanded


def test_references_that_multiply_fill_no_memory():
    variables = {"A": "x" * 64}
    for before, name in pairwise("ABCD"):
        variables[name] = expand(f"$({before})" * 10, variables)
    with pytest.raises(StartFailed, match=r"more than 131072 bytes after \$\(D\) is replaced"):
        expand("$(D)" * 10, variables)


@pytest.mark.parametrize("text", ["$(" * 60_000, "$(A)" + "$($" * 40_000, "$$(" * 40_000])
def test_references_without_an_end_take_no_time(text):
    begun = time.process_time()
    expand(text, {"A": "1"})
    assert [*references(text)] in ([], ["A"])
    assert time.process_time() - begun < 2


def test_an_object_is_decoded_once_however_many_variables_refer_to_it(tmp_path):
    known = {"data": {"big": base64.b64encode(b"x" * 600_000).decode(), "k": "eA=="}}
    found = EnvironmentResolver(lambda *_: known)
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    begun = time.process_time()
    program = found.program({"env": [{"name": f"V{n}", "valueFrom": source} for n in range(5_000)]}, facts())
    assert time.process_time() - begun < 2
    assert set(program.env.values()) == {"x"}
    known = {"data": {"k": "eQ=="}}
    assert found.program({"env": [{"name": "V", "valueFrom": source}]}, facts()).env == {"V": "y"}, "it has changed"


def many(*names: str, text: str = "$(A)y") -> dict:
    """A container with 100 variables, or words of its command or arguments, that multiply the variable A."""
    env = [{"name": "A", "value": "x" * 120_000}]
    container = {name: [text] * 100 for name in names if name != "env"}
    return {
        **container,
        "env": [*env, *({"name": f"V{n}", "value": text} for n in range(100 if "env" in names else 0))],
    }


@pytest.mark.parametrize(
    "container",
    [
        many("env"),
        many("args"),
        many("command"),
        {**many("args"), "args": ["語" * 40_000] * 100},
        {"env": [{"name": f"V{n}", "valueFrom": {"secretKeyRef": {"name": "long", "key": "k"}}} for n in range(100)]},
        {"envFrom": [{"prefix": f"V{n}", "secretRef": {"name": "long"}} for n in range(100)]},
    ],
)
def test_all_that_a_program_gets_has_a_limit(container):
    with pytest.raises(StartFailed, match="all arguments and variables together have more than 6291456 bytes"):
        resolver().program(container, facts())


def test_only_the_last_value_of_a_variable_counts():
    again = {"env": [{"name": "A", "value": "x" * 120_000}] * 100}
    assert resolver().program(again, facts()).size == 120_000


def test_variables_come_from_everywhere():
    env = [
        {"name": "PLAIN", "value": "x"},
        {"name": "BOTH", "value": "$(PLAIN)-$(P_rate)"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
        {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "ACCOUNT", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}},
        {"name": "PLAIN", "value": "later"},
        {"name": "EMPTY"},
        {"name": "BEFORE", "value": "$(AFTER)"},
        {"name": "AFTER", "value": "x"},
        {"name": "OTHER", "valueFrom": {"resourceFieldRef": {"containerName": "side", "resource": "limits.memory"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "no", "optional": True}}},
    ]
    container = {"env": env, "resources": {"limits": {"cpu": 2}}}
    container["envFrom"] = [{"configMapRef": {"name": "settings"}, "prefix": "P_"}, {"secretRef": {"name": "keys"}}]
    side = {"name": "side", "resources": {"limits": {"memory": "1Ki"}}}
    assert resolver().program(container, facts(initContainers=[side])).env == {
        "P_rate": "0.1",
        "P_depth": "3",
        "token": "secret",
        "user": "me",
        "PLAIN": "later",
        "HOST": "198.18.0.1",
        "ACCOUNT": "default",
        "EMPTY": "",
        "BEFORE": "$(AFTER)",
        "AFTER": "x",
        "OTHER": "1024",
        "BOTH": "x-0.1",
        "TOKEN": "secret",
        "IP": "198.18.0.2",
        "TEAM": "a",
        "CPU": "2",
    }


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "no", "key": "x"}}, 'configmap "no" not found'),
        ({"secretKeyRef": {"name": "keys", "key": "x"}}, "couldn't find key x in Secret ml/keys"),
        ({"configMapKeyRef": {"name": "settings", "key": "raw"}}, "couldn't find key raw in ConfigMap ml/settings"),
        ({"secretKeyRef": {"name": "broken", "key": "k"}}, 'secret "broken" has illegal base64 data'),
        ({"fieldRef": {"fieldPath": "status.phase"}}, "unsupported fieldPath: status.phase"),
        ({"resourceFieldRef": {"resource": "limits.x"}}, "unsupported container resource : limits.x"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "x"}}, "container x not found"),
    ],
)
def test_a_reference_to_nothing_is_an_error(source, message):
    with pytest.raises(ConfigError, match=message):
        resolver().program({"env": [{"name": "A", "valueFrom": source}]}, facts())


def test_bytes_that_are_not_utf_8_are_replaced_one_by_one_and_a_null_prevents_the_start():
    found = resolver().program({"envFrom": [{"secretRef": {"name": "binary"}}]}, facts())
    assert found.env == {"raw": "a\ufffd\ufffd\ufffdb"}
    with pytest.raises(StartFailed, match=r"can't contain null.*: raw"):
        resolver().program({"envFrom": [{"secretRef": {"name": "null"}}]}, facts())


@pytest.mark.parametrize(("kind", "found"), [("configMap", {"A": ""}), ("secret", {"A": "", "B": ""})])
def test_a_null_is_an_empty_text(tmp_path, kind, found):
    keys = [{"name": key, "valueFrom": {f"{kind}KeyRef": {"name": "empty", "key": key}}} for key in found]
    for container in ({"env": keys}, {"envFrom": [{f"{kind}Ref": {"name": "empty"}}]}):
        assert resolver().program(container, facts()).env == found
    volume = {"name": "v", "projected": {"sources": [{kind: {"name": "empty"}}]}}
    path = Volumes(resolver(), tmp_path).make(facts(volumes=[volume]), tmp_path / "pod")["v"].path
    assert {file.name: file.read_text() for file in path.iterdir()} == found


def test_volumes_are_folders(tmp_path):
    items = [{"key": "rate", "path": "deep/rate.txt", "mode": 0o600}]
    host = tmp_path / "host"
    volumes = [
        {"name": "all", "configMap": {"name": "settings"}},
        {"name": "one", "configMap": {"name": "settings", "items": items}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": str(host), "type": "DirectoryOrCreate"}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
        {
            "name": "mixed",
            "projected": {"sources": [{"secret": {"name": "keys"}}, {"configMap": {"name": "settings"}}]},
        },
        {"name": "down", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    made = Volumes(resolver(), tmp_path / "state").make(facts(volumes=volumes), tmp_path / "pod")
    found = {name: volume.path for name, volume in made.items()}
    assert (found["all"] / "depth").read_text() == "3"
    assert (found["one"] / "deep/rate.txt").stat().st_mode & 0o777 == 0o600
    assert (found["keys"] / "token").read_text() == "secret"
    assert list(found["scratch"].iterdir()) == []
    assert found["host"] == host
    assert found["claim"] == tmp_path / "state/claims/ml/data"
    assert sorted(path.name for path in found["mixed"].iterdir()) == ["depth", "rate", "raw", "token", "user"]
    assert (found["down"] / "name").read_text() == "pod"


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
        ({"configMap": {"name": "settings", "items": [{"key": "no", "path": "x"}]}}, "references non-existent key: no"),
        ({"hostPath": {"path": "/nowhere/at/all"}}, "does not exist on this machine"),
    ],
)
def test_a_volume_of_nothing_is_an_error(tmp_path, volume, message):
    with pytest.raises(ConfigError, match=message):
        Volumes(resolver(), tmp_path).make(facts(volumes=[{"name": "v", **volume}]), tmp_path)


@pytest.mark.parametrize("kind", ["DirectoryOrCreate", "FileOrCreate"])
def test_a_host_path_that_another_user_owns_in_a_shared_folder_is_left_alone(tmp_path, monkeypatch, kind):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    path = shared / "examples" / "one"
    volume = {"name": "v", "hostPath": {"path": str(path), "type": kind}}
    make = Volumes(resolver(), tmp_path / "state").make
    assert make(facts(volumes=[volume]), tmp_path)["v"].path == path
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    own = tmp_path / "state/host-paths" / str(path).strip("/")
    assert make(facts(volumes=[volume]), tmp_path)["v"].path == own
    assert own.is_file() == path.is_file() == (kind == "FileOrCreate")
    (listed,) = foreign_host_paths([facts(volumes=[volume]).pod], tmp_path / "state")
    assert str(own) in listed
    volume["hostPath"]["type"] = "" if path.is_file() else "Directory"
    assert make(facts(volumes=[volume]), tmp_path)["v"].path == path, "the job does not ask for a path of its own"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may create everything")
def test_a_host_path_that_cannot_be_created_is_refused(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    host = {"path": str(closed / "data"), "type": "DirectoryOrCreate"}
    assert cannot_create(host)
    with pytest.raises(ConfigError, match="Permission denied"):
        Volumes(resolver(), tmp_path).make(facts(volumes=[{"name": "v", "hostPath": host}]), tmp_path)
    closed.chmod(0o755)
    assert not cannot_create(host)


def test_a_part_of_a_volume_is_mounted(tmp_path):
    wanted = {
        "name": "main",
        "volumeMounts": [{"name": "v", "mountPath": "/a/", "subPathExpr": "$(RUN)/out", "readOnly": True}],
    }
    (mount,) = mounts(wanted, {"v": Volume(tmp_path)}, {"RUN": "7"})
    assert (mount.source, mount.target, mount.read_only) == (tmp_path / "7/out", "/a", True)
    assert mount.source.is_dir()


def test_gpus_return_when_a_pod_ends():
    def container(count: int, name: str = "main") -> dict:
        return {"name": name, "resources": {"limits": {"nvidia.com/gpu": count}} if count else {}}

    gpus = Gpus([0, 1, 2])
    assert gpus.take("none", container(0)) is None
    assert gpus.take("a", container(2)) == "0,1"
    assert gpus.take("a", container(2)) == "0,1", "a container that is started again keeps its own"
    assert gpus.take("b", container(2)) == "2"
    gpus.release("a")
    assert gpus.take("c", container(1)) == "0"
    assert gpus.take("c", container(1, "beside")) == "1"

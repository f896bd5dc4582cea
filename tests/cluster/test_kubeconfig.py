"""What is wrong with a kubeconfig is an error that names the file and the field."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from trainshed.cluster.kubeconfig import BadKubeconfig, Section, read


def section(folder: Path, **fields: object) -> Section:
    return Section(folder / "config", "", fields)


def test_the_whole_file_is_a_section_and_its_lists_hold_others(tmp_path):
    (tmp_path / "config").write_text("users: [{name: u, user: {token: 12345}}, {name: empty}]")
    whole = read(tmp_path / "config")
    assert whole.named("users", "u").text("token") == "12345"
    assert whole.named("users", "empty").text("token") == ""


def test_paths_are_relative_to_the_kubeconfig_and_data_wins_over_a_path(tmp_path):
    (tmp_path / "a.key").write_text("PEM")
    assert section(tmp_path, **{"client-key": "a.key"}).file("client-key") == (str(tmp_path / "a.key"), b"")
    data = base64.encodebytes(b"PEM" * 99).decode()
    assert section(tmp_path, **{"client-key": "a.key", "client-key-data": data}).file("client-key") == (
        "",
        b"PEM" * 99,
    )
    assert section(tmp_path).file("client-key") == ("", b"")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("client-key-data", "not base64", "config: client-key-data is not base64"),
        ("client-key-data", ["a"], "config: client-key-data is not text"),
        ("client-key", "away.key", "config: client-key names .*/away.key, which cannot be read: No such file"),
        ("client-key", ".", "config: client-key names .*, which cannot be read: Is a directory"),
    ],
)
def test_a_field_that_cannot_be_used_is_named(tmp_path, field, value, words):
    with pytest.raises(BadKubeconfig, match=words):
        section(tmp_path, **{field: value}).file("client-key")


def test_a_flag_is_true_only_if_the_file_says_so(tmp_path):
    assert section(tmp_path, insecure=True).flag("insecure")
    assert not section(tmp_path, insecure=False).flag("insecure")
    assert not section(tmp_path).flag("insecure")
    for text in ("false", "true", 1):
        with pytest.raises(BadKubeconfig, match="config: insecure is neither true nor false"):
            section(tmp_path, insecure=text).flag("insecure")


@pytest.mark.parametrize(
    ("users", "words"),
    [
        ({"u": {}}, "users is not a list"),
        (["u"], "users has no item named 'u'"),
        ([{"name": "u", "user": "somebody"}], r"users\[u\].user has no fields"),
    ],
)
def test_a_list_that_cannot_be_used_is_named(tmp_path, users, words):
    with pytest.raises(BadKubeconfig, match=words):
        section(tmp_path, users=users).named("users", "u")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"users: [\n", "config is not YAML: line 2 "),
        (b"users:\n- user: {token: a: canary}\n", "config is not YAML: line 2 "),
        (b"token: !canary", "config is not YAML: line 1 "),
        (b"\xff\xfe\x00", "config is not text in UTF-8"),
        (b"a: \x07", "config is not text in UTF-8"),
        (b"[]", "config is not a kubeconfig"),
        (b"", "config is not a kubeconfig"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_named_and_its_content_is_not_repeated(tmp_path, content, words):
    (tmp_path / "config").write_bytes(content)
    with pytest.raises(BadKubeconfig, match=words) as error:
        read(tmp_path / "config")
    assert "canary" not in str(error.value)


def test_a_file_that_is_away_is_named(tmp_path):
    with pytest.raises(BadKubeconfig, match="away cannot be read: No such file or directory"):
        read(tmp_path / "away")

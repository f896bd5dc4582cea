"""An invalid kubeconfig raises an error that names the file and the field."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from trainshed.client.kubeconfig import BadKubeconfig, Section, read_kubeconfig


def section(folder: Path, **fields: object) -> Section:
    return Section(folder / "config", "", fields)


def test_a_file_is_a_section_and_its_lists_contain_sections(tmp_path):
    (tmp_path / "config").write_text("users: [{name: u, user: {token: 1:3}}, {name: empty}]")
    whole = read_kubeconfig(tmp_path / "config")
    assert whole.named("users", "u").text("token") == "1:3"
    assert whole.named("users", "empty").text("token") == ""


def test_paths_are_relative_to_the_kubeconfig_and_data_take_precedence(tmp_path):
    (tmp_path / "a.key").write_text("PEM")
    assert section(tmp_path, **{"client-key": "a.key"}).file("client-key") == (str(tmp_path / "a.key"), b"")
    data = base64.encodebytes(b"PEM" * 99).decode()
    assert section(tmp_path, **{"client-key": "a.key", "client-key-data": data}).file("client-key") == (
        "",
        b"PEM" * 99,
    )
    assert section(tmp_path).file("client-key") == ("", b"")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("client-key-data", "not base64", "config: client-key-data is not valid base64"),
        ("client-key-data", ["a"], "config: client-key-data must be a string$"),
        ("client-key-data", 17, "config: client-key-data must be a string, in quotes"),
        ("client-key", "away.key", "config: client-key refers to .*/away.key, which cannot be read: No such file"),
        ("client-key", "a\0b", "config: client-key refers to .*, which cannot be read: embedded null byte"),
        ("client-key", ".", "config: client-key refers to .*, which cannot be read: Is a directory"),
    ],
)
def test_an_invalid_field_is_named(tmp_path, field, value, message):
    with pytest.raises(BadKubeconfig, match=message):
        section(tmp_path, **{field: value}).file("client-key")


def test_a_boolean_field_must_be_true_or_false(tmp_path):
    assert section(tmp_path, insecure=True).flag("insecure")
    assert not section(tmp_path, insecure=False).flag("insecure")
    assert not section(tmp_path).flag("insecure")
    for text in ("false", "true", 1):
        with pytest.raises(BadKubeconfig, match="config: insecure must be true or false"):
            section(tmp_path, insecure=text).flag("insecure")


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ({"u": {}}, "users must be a list"),
        ([{"name": "u", "user": "text"}], r"users\[u\].user must be a mapping"),
    ],
)
def test_an_invalid_list_is_named(tmp_path, users, message):
    with pytest.raises(BadKubeconfig, match=message):
        section(tmp_path, users=users).named("users", "u")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"users: [\n", "config is not valid YAML: syntax error in line 2"),
        (b"users:\n- user: {token: a: canary}\n", "config is not valid YAML: syntax error in line 2"),
        (b"token: !!int canary", "config is not valid YAML: syntax error in line 1"),
        (b"\xff\xfe\x00", "config is not UTF-8 text"),
        (b"a: \x07", "config is not valid YAML: syntax error in line 1"),
        (b"[]", "config is not a kubeconfig"),
        (b"text", "config is not a kubeconfig"),
    ],
)
def test_an_invalid_file_is_named_and_its_content_is_not_quoted(tmp_path, content, message):
    (tmp_path / "config").write_bytes(content)
    with pytest.raises(BadKubeconfig, match=message) as error:
        read_kubeconfig(tmp_path / "config")
    assert "canary" not in str(error.value)


def test_of_a_key_that_is_given_twice_the_last_one_is_used(tmp_path):
    (tmp_path / "config").write_text("current-context: a\ncurrent-context: b")
    assert read_kubeconfig(tmp_path / "config").text("current-context") == "b"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadKubeconfig, match=r"cannot read kubeconfig .*/away: No such file or directory"):
        read_kubeconfig(tmp_path / "away")

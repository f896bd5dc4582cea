"""The file of init containers: v1's three variables are filled in, and other actions are rejected."""

from __future__ import annotations

import pytest

from trainshed.frameworks.pytorch import BadTemplate, init_containers_from_template

V1 = """
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  command: ['sh', '-c', 'err=1; for i in $(seq {{ .MaxTries }}); do nslookup {{.MasterAddr}} && err=0 && break; done']
"""
VALUES = ("ddp-master-0", "alpine:3.10", "7")


def test_the_words_of_v1_are_filled_in():
    (container,) = init_containers_from_template(V1, VALUES)
    assert container["name"] == "init-pytorch"
    assert container["image"] == "alpine:3.10"
    assert "seq 7" in container["command"][2]
    assert "nslookup ddp-master-0 &&" in container["command"][2]


def test_nothing_is_escaped_for_html():
    (container,) = init_containers_from_template(
        "- name: a\n  args:\n  - 1 < 2 && echo '{{.MasterAddr}}'", ("<h&>", "i", "1")
    )
    assert container["args"] == ["1 < 2 && echo '<h&>'"]


def test_blanks_are_trimmed_and_comments_passed_over_as_in_go():
    (container,) = init_containers_from_template('- name: "a {{- .MasterAddr -}} c{{/* a word */}}"', ("b", "i", "1"))
    assert container == {"name": "abc"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "- name: {{ if .MasterAddr }}a{{ end }}",
            "{{if .MasterAddr}} is not supported; the variables are {{.Mas",
        ),
        ("- name: {{.Master}}", "{{.Master}} is not supported"),
        ("- name: {{MaxTries}}", "{{MaxTries}} is not supported"),
        ("- name: [", "not YAML"),
        ("name: a", "not a list of containers"),
        ("- image: a", "not a list of containers"),
        ("", "not a list of containers"),
    ],
)
def test_what_cannot_be_is_said(text, words):
    with pytest.raises(BadTemplate) as caught:
        init_containers_from_template(text, VALUES)
    assert words in str(caught.value)

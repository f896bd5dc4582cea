"""Scripts of faults: what is not known is an error that names it and its place."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from trainshed.drill.faults import FULL, LARGEST, NAMES, QUICK, SHOWN, BadScript, KillRank, Stall, read

#: Nine lines that stand for a billion texts.
LAUGHS = "a: &a [x, x, x]\n" + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in pairwise("abcdefghi"))
#: Values of other types than a field has, and fields that take none of them.
STRANGE = ("true", "[]", "{}", "-1", "9e99", "0x7fffffffffffffffffff", "1" + "0" * 5000, "2001-01-01x", "!!binary aGk=")
FIELDS = {"atStep": "evict", "mostLostSteps": "evict", "seconds": "stall", "replicas": "resize"}


@pytest.fixture
def script(tmp_path):
    def write(text: str | bytes):
        path = tmp_path / "faults.yaml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read(path).faults

    return write


def test_a_script_has_faults_in_their_order(script):
    text = (
        "faults:\n- {fault: kill-rank, replica: worker-0, atStep: 30, mostLostSteps: 5}\n- {fault: stall, seconds: 2}\n"
    )
    assert script(text) == (KillRank(30, 5, "worker-0"), Stall(seconds=2.0))


def test_every_fault_can_stand_in_a_script_by_its_name(script):
    assert script("faults:\n" + "".join(f"- fault: {name}\n" for name in NAMES)) == FULL
    assert set(QUICK) < set(FULL)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("faults: [{fault: kill-rank, atStepp: 3}]", "faults[0]: Object contains unknown field `atStepp`"),
        (
            "faults: [{fault: evict}, {fault: quake}]",
            "faults[1].fault: Invalid value 'quake'; known faults are kill",
        ),
        ("faults: [{atStep: 3}]", "faults[0]: Object missing required field `fault`"),
        ("faults: [{fault: kill-all, replica: worker-0}]", "faults[0]: Object contains unknown field `replica`"),
        ("faults: [{fault: evict, atStep: -1}]", "faults[0].atStep: Expected `int` >= 0"),
        ("faults: [{fault: stall, seconds: 1e9}]", "faults[0].seconds: Expected `float` <= 3600.0"),
        ("faults: []", "faults: Expected `array` of length >= 1"),
        ("faults: 3", "faults: Expected `array`, got `int`"),
        ("tolerance: 3", "Object contains unknown field `tolerance`"),
        ("- a", "Expected `object`, got `array`"),
        ("", "has 0 documents"),
        ("faults: []\n---\nfaults: []", "has 2 documents"),
        ("faults: [{fault: evict, fault: oom}]", "is given twice"),
        (b"faults: \xff", "is not UTF-8"),
        ("#" * (LARGEST + 1), "has more than 64 KiB"),
        ("faults: [{fault: evict, " + "\x1b[31m" * 3 + "b: 3}]", "line 1: "),
        ("a: &a [x, x]\nb: " + "[*a, *a]", "Object contains unknown field `a`"),
        (LAUGHS, "line 1: too much of the document comes from aliases"),
        ("faults: &a [*a]", "line 1: &a contains itself"),
        *((text, "is nested deeper than 100 levels") for text in ("[" * 30_000, "{a: " * 10_000, "- " * 20_000)),
        ('{"faults":' + "[" * 10_000, "is nested deeper than 100 levels"),
        ("faults: [\0]", "control character U+0000 is not allowed"),
        *((f"faults: [{{fault: stall, seconds: {number}}}]", "has no value in JSON") for number in (".nan", "-.inf")),
        ('{"faults": [{"fault": "stall", "seconds": NaN}]}', "Expected `float`"),
        (
            "faults: [{fault: evict, replica: " + "x" * 60_000 + "}]",
            "faults[0].replica: Expected `str` of length <= 253",
        ),
        *(
            (f"faults: [{{fault: {fault}, {field}: {value}}}]", f"faults[0].{field}: Expected ")
            for field, fault in FIELDS.items()
            for value in STRANGE
        ),
        *((f"faults: [{{fault: {value}}}]", "faults[0].fault: ") for value in STRANGE),
        *((f"faults: {value}", "faults: Expected `array`") for value in STRANGE if value != "[]"),
    ],
)
def test_what_a_script_may_not_have_is_named_with_its_place(script, tmp_path, text, said):
    with pytest.raises(BadScript) as error:
        script(text)
    assert "faults.yaml: " in str(error.value)
    assert said in str(error.value)
    assert "\x1b" not in str(error.value)
    assert len(str(error.value).removeprefix(str(tmp_path))) < 2 * SHOWN
    assert "\n" not in str(error.value)


def test_what_is_no_script_is_an_error_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(100 << 20)
    for place, said in {
        tmp_path / "none": "cannot read .*: No such file",
        tmp_path: "cannot read .*: Is a directory",
        tmp_path / "loop": "cannot read .*: Too many levels",
        tmp_path / "pipe": "is no file",
        Path("/dev/zero"): "is no file",
        tmp_path / "large": "has more than 64 KiB",
    }.items():
        with pytest.raises(BadScript, match=said):
            read(place)


@pytest.mark.parametrize("fault", FULL, ids=NAMES)
def test_every_fault_says_what_it_did(fault):
    assert fault.effect("job-worker-0", "x.pt")

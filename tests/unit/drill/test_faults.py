"""Scripts of faults: what is not known is an error that names it and its place."""

from __future__ import annotations

import pytest

from trainshed.drill.faults import FULL, LARGEST, NAMES, QUICK, BadScript, KillRank, Stall, read


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
    ],
)
def test_what_a_script_may_not_have_is_named_with_its_place(script, text, said):
    with pytest.raises(BadScript) as error:
        script(text)
    assert "faults.yaml: " in str(error.value)
    assert said in str(error.value)
    assert "\x1b" not in str(error.value)


def test_a_missing_script_is_an_error(tmp_path):
    with pytest.raises(BadScript, match="cannot read"):
        read(tmp_path / "none")


@pytest.mark.parametrize("fault", FULL, ids=NAMES)
def test_every_fault_says_what_it_did(fault):
    assert fault.told("job-worker-0", "x.pt")

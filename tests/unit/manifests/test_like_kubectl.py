"""YAML is read and written as by sigs.k8s.io/yaml, with which kubectl reads and writes it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

import pytest

from support.kubeyaml import answers, renewed, table
from trainshed.manifests import nodes, reader, writer
from trainshed.manifests.nodes import BadManifest

from .odd_yaml import SCALARS, Documents

SEED = 20
REFUSED = object()


def read(text: str, *, unique: bool = True) -> object:
    """The value that the reader returns, comparable; REFUSED if there is none."""
    try:
        return comparable(reader.document(text, unique=unique))
    except BadManifest:
        return REFUSED


def read_file(text: str) -> object:
    try:
        return comparable([found.value for found in reader.documents(text)])
    except BadManifest:
        return REFUSED


def comparable(value: object) -> str:
    """A value as text: with 1 unlike true, but like 1.0, which JSON does not keep apart."""
    return json.dumps(json.loads(json.dumps(value), parse_float=whole), sort_keys=True)


def whole(digits: str) -> float:
    value = float(digits)
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def theirs(answer: dict) -> object:
    return REFUSED if "error" in answer else comparable(answer["json"][0])


def read_by(monkeypatch, size: int, texts: Iterable[str]) -> list[object]:
    """The values of texts that are all of a file that is long and may be slow (0), or that is short."""
    monkeypatch.setattr(nodes, "LONG", size)
    monkeypatch.setattr(nodes, "LONGEST", size)
    return [read(text) for text in texts]


def test_a_long_file_is_read_as_a_short_one_or_refused(monkeypatch):
    made = Documents(SEED + 4)
    texts = [f"{made.one()}\n" for _ in range(3_000)]
    quick, slow = read_by(monkeypatch, 0, texts), read_by(monkeypatch, 1 << 30, texts)
    pairs = [pair for pair in zip(quick, slow, texts, strict=True) if pair[0] is not REFUSED]
    assert [text for one, other, text in pairs if one != other] == []
    assert len(pairs) > len([value for value in slow if value is not REFUSED]) * 0.9


#: Long files: what libyaml refuses or would read otherwise.
ODD = [
    ("[a:]", ""),
    ('["\\\'"]', ""),
    ("[!!int 1]", "a tag, or a ?"),
    ("[a, {b: c?}]", None),
    ('"\\/"', None),
    ("[!<x>,1]", None),
]


@pytest.mark.parametrize(("text", "problem"), ODD)
def test_a_long_file_with_what_libyaml_reads_otherwise_is_read_by_the_scanner_or_refused(text, problem):
    comment = "# a comment\n" * 6_000
    expected = REFUSED if problem is None else read(text)
    assert read(comment + text) == expected
    with pytest.raises(BadManifest, match=f"line 120001: {problem or ''}"):
        reader.document(comment * 20 + text)


@pytest.mark.slow
def test_long_files_are_read_quickly():
    line = "- {name: x, value: 'abc'}\n  \n- args: [a, b, \"c d\"]\n"
    short, long = line * 600, line * 24_000
    assert len(short) < nodes.LONG < nodes.LONGEST < len(long)
    seconds = []
    for text in (short, long):
        begun = time.process_time()
        reader.document(text)
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 0.7 * seconds[0] * len(long) / len(short)


def test_a_document_of_too_many_values_is_refused(monkeypatch):
    monkeypatch.setattr(nodes, "MOST", 1_000)
    with pytest.raises(BadManifest, match="line 1000: the document has more than 1000 keys and values"):
        reader.document("- 1\n" * 1_000)


@pytest.mark.parametrize("row", table(), ids=lambda row: ascii(row["text"])[:40])
def test_a_scalar_is_read_as_by_kubectl(row):
    assert read(row["text"]) == (REFUSED if row.get("refused") else comparable(row["json"]))


def test_what_is_written_is_read_as_it_was():
    values = [*SCALARS, *({text: [text, {text: text}]} for text in SCALARS)]
    assert [value for value in values if read(writer.write([value])) != comparable(value)] == []


@pytest.mark.apiserver
def test_the_table_of_scalars_has_the_answers_of_kubectl():
    assert table() == renewed()


@pytest.mark.apiserver
def test_random_documents_are_read_as_by_kubectl():
    made = Documents(SEED)
    texts = [made.one() for _ in range(20_000)]
    found = answers({"document": text} for text in texts)
    different = [text for text, answer in zip(texts, found, strict=True) if read(text) != theirs(answer)]
    assert different == []
    assert sum("json" in answer for answer in found) > 5_000, "too few documents are valid"


@pytest.mark.apiserver
def test_of_keys_that_are_given_twice_the_last_ones_win_for_client_go():
    made = Documents(SEED + 3)
    texts = [made.one() for _ in range(20_000)]
    pairs = zip(texts, answers({"document": text} for text in texts), strict=True)
    twice = [text for text, answer in pairs if "already set in map" in answer.get("error", "")]
    found = zip(twice, answers({"document": text, "lenient": True} for text in twice), strict=True)
    assert len(twice) > 20
    assert [text for text, answer in found if read(text, unique=False) != theirs(answer)] == []


@pytest.mark.apiserver
def test_random_files_are_read_as_by_kubectl():
    made = Documents(SEED + 1)
    texts = [made.file() for _ in range(5_000)]
    found = answers({"file": text} for text in texts)
    pairs = zip(texts, found, strict=True)
    assert [t for t, a in pairs if read_file(t) != (REFUSED if "error" in a else comparable(a.get("json", [])))] == []


@pytest.mark.apiserver
def test_kubectl_reads_what_is_written_and_we_read_what_kubectl_writes():
    made = Documents(SEED + 2)
    values = [*SCALARS, *({text: [text, {text: text}]} for text in SCALARS), *(made.value() for _ in range(20_000))]
    found = answers({"document": writer.write([value])} for value in values)
    assert [value for value, answer in zip(values, found, strict=True) if theirs(answer) != comparable(value)] == []
    written = answers({"value": value} for value in values)
    texts = [answer["yaml"] for answer in written if "yaml" in answer]  # it cannot write U+007F
    assert len(texts) > 20_000
    found = answers({"document": text} for text in texts)
    assert [text for text, answer in zip(texts, found, strict=True) if read(text) != theirs(answer)] == []

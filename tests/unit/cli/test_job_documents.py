"""Jobs are printed as JSON and YAML one at a time, and are the lists that kubectl prints."""

from __future__ import annotations

import json

import pytest
import yaml

from trainshed.cli import job_documents

JOBS = [{"metadata": {"name": "a", "note": "two\nlines []\x9b"}, "spec": {}}, {"metadata": {"name": "b"}}]


@pytest.mark.parametrize(("form", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_jobs_are_a_list_and_one_is_itself(form, load, count):
    text = "".join(job_documents.texts(form, JOBS[:count], one=False))
    whole = {**job_documents.LIST, "items": JOBS[:count]}
    assert load(text) == whole
    assert text.endswith("\n")
    if form == "json":
        assert text.isascii()
        assert text == json.dumps(whole, indent=4) + "\n"
    assert [load("".join(job_documents.texts(form, [job], one=True))) for job in JOBS[:count]] == JOBS[:count]

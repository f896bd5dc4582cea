"""Jobs as JSON and YAML, as kubectl prints them: one at a time, as they may be large."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from trainshed.api.foreign_text import json_escaped
from trainshed.api.job import Document

LIST = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": ()}
#: The empty list at the end of LIST.
NONE = "[]"


def texts(form: str, jobs: Iterable[Document], *, one: bool) -> Iterator[str]:
    """Yield the parts of the text of jobs, as `json` or `yaml`: of a single one, or of a list."""
    if one:
        for job in jobs:
            yield f"{_json(job)}\n" if form == "json" else _yaml(job)
    else:
        yield from _json_list(jobs) if form == "json" else _yaml_list(jobs)


def _json_list(jobs: Iterable[Document]) -> Iterator[str]:
    head, _, tail = _json(LIST).rpartition(NONE)
    between, end = f"{head}[\n", f"{head}{NONE}{tail}\n"
    for job in jobs:
        yield between + "\n".join(f"        {line}" for line in _json(job).split("\n"))
        between, end = ",\n", f"\n    ]{tail}\n"
    yield end


def _yaml_list(jobs: Iterable[Document]) -> Iterator[str]:
    head, _, tail = _yaml(LIST | {"items": []}).rpartition(f" {NONE}")
    between, end = f"{head}\n", f"{head} {NONE}{tail}"
    for job in jobs:
        yield between + _yaml([job]).partition("\n")[2]
        between = end = ""
    yield end


def _json(document: object) -> str:
    return json_escaped(json.dumps(document, indent=4, ensure_ascii=False))


def _yaml(document: object) -> str:
    from trainshed.manifests import writer  # noqa: PLC0415 - only this form needs it

    return writer.write([document])

"""A job's own expression for the lines of its log, in the shape of NVIDIA's LogProfile, with the syntax of RE2."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from .coerce import as_mapping

if TYPE_CHECKING:
    import re2

#: The most characters of the annotation and of an expression, the most groups of it, and the most bytes of its program.
MAX_TEXT, MAX_EXPRESSION, MAX_GROUPS, MAX_MEMORY = 4_096, 1_024, 16, 1 << 20
#: The most instructions of its program: a line takes a time that grows with them, of some larger ones 30 ms.
MAX_PROGRAM = 512
FORM = 'must be JSON or YAML such as {"trainingStep": {"regex": "step (?P<step>[0-9]+) loss (?P<loss>[0-9.]+)"}}'


@lru_cache(maxsize=1_024)
def expression(text: str) -> tuple[str, str]:
    """Return the expression for steps in the text of an annotation, and what is wrong with it; one of both is empty.

    The text is a LogProfile, its spec, or its patterns; those that are not for steps are not read.
    """
    if len(text) > MAX_TEXT:
        return "", f"Too long: must have at most {MAX_TEXT} characters"
    found: object = _loaded(text)
    for key in ("spec", "patterns"):
        found = as_mapping(found).get(key, found)
    written = as_mapping(as_mapping(found).get("trainingStep")).get("regex")
    if not isinstance(written, str) or not written:
        return "", f"Invalid value: {FORM}"
    if len(written) > MAX_EXPRESSION:
        return "", f"Invalid value: trainingStep.regex has more than {MAX_EXPRESSION} characters"
    problem = _problem(written)
    return ("", f"Invalid value: trainingStep.regex{problem}") if problem else (written, "")


def _problem(written: str) -> str:
    """Return what is wrong with an expression, as the end of a sentence; empty for nothing."""
    import re2  # noqa: PLC0415 - only jobs with expressions of their own need it

    try:
        found = compiled(written)
    except (re2.error, UnicodeError) as error:
        return f": {_words(error)} (the syntax is that of RE2)"
    if found.programsize > MAX_PROGRAM:
        return ": pattern too large: has it large repetitions or classes?"
    if not 0 < len(found.groupindex) <= MAX_GROUPS:
        return f" must have named groups, at most {MAX_GROUPS}: step, total, loss"
    return ""


@lru_cache(maxsize=256)
def compiled(written: str) -> re2._Regexp[str]:
    """Return an expression that takes linear time, in bounded memory; raises `re2.error`."""
    import re2  # noqa: PLC0415 - as above

    options = re2.Options()
    options.log_errors, options.max_mem = False, MAX_MEMORY
    return re2.compile(written, options)


def _loaded(text: str) -> object:
    import yaml  # noqa: PLC0415 - as above

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


def _words(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)

"""What a careful colleague says about a job before it is submitted: advice about specs that the API server accepts.

A rule is a pure function of the parsed job. Its name is its heading in docs/check.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

import msgspec

from trainshed.api.coerce import as_mapping, parse_text
from trainshed.api.framework import Framework
from trainshed.api.job import Document, Job

from . import container_rules, job_rules
from .remark import LintedJob, LintRule

#: All rules by their names.
RULES: Mapping[str, LintRule] = {rule.name: rule for rule in (*job_rules.RULES, *container_rules.RULES)}
#: The annotation of a job with the names of the rules that it is exempt from, between commas. Its prefix is not that of
#: the operator's annotations, of which the API server accepts only those with an effect.
DISABLE = "lint.trainshed.dev/disable"
CORRECT = "Correct the name; docs/check.md lists the rules."


class Finding(msgspec.Struct, frozen=True):
    """What a rule says about a job: where, what is wrong there, and what to do."""

    rule: str
    path: str
    message: str
    advice: str
    is_error: bool = False


def findings(document: Document, job: Job, framework: Framework, disabled: Collection[str] = ()) -> list[Finding]:
    """Return what the rules say about a valid job, without those that are `disabled` here or by its annotation.

    What is the same for several roles is one finding, whose path names all of them.
    """
    annotations = as_mapping(as_mapping(document.get("metadata")).get("annotations"))
    exempt = [name for name in re.split(r"[,\s]+", parse_text(annotations.get(DISABLE))) if name]
    subject = LintedJob(job, framework, as_mapping(document.get("spec")))
    known = [rule for name, rule in RULES.items() if name not in (*exempt, *disabled)]
    return [found for rule in known for found in _of(rule, subject)] + [
        Finding("unknown-rule", f"metadata.annotations[{DISABLE}]", f"names {name}, which is no rule", CORRECT)
        for name in exempt
        if name not in RULES
    ]


def _of(rule: LintRule, subject: LintedJob) -> Iterator[Finding]:
    roles: dict[tuple[str, str], list[str]] = {}
    for remark in rule.check(subject):
        roles.setdefault((remark.path, remark.message), []).append(remark.role)
    for (path, message), names in roles.items():
        start = f"spec.{subject.framework.field}[{','.join(dict.fromkeys(names))}]" if names[0] else "spec"
        yield Finding(rule.name, f"{start}.{path}" if path else start, message, rule.advice, rule.is_error)

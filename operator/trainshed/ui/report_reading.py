"""Reads what a report needs: a job with its pods and Events, the record of one that is gone, or a run on a machine."""

from __future__ import annotations

from importlib.metadata import version

from msgspec.structs import replace

from trainshed.api import run_history, status_codec
from trainshed.api.coerce import as_mapping, parse_text
from trainshed.api.foreign_text import one_line
from trainshed.api.job import Document
from trainshed.api.job_record import Versions, ended_at
from trainshed.api.objects import JOB_NAME_LABEL
from trainshed.client import ApiError, Forbidden
from trainshed.client.config_maps import kubernetes_version
from trainshed.client.job_reader import CORE, JobKind, JobReader, NoSuchJob
from trainshed.client.record_reader import chosen, read_records
from trainshed.client.transport import Path
from trainshed.job_facts import read_story
from trainshed.plan.facts import Facts
from trainshed.process import Clock
from trainshed.views import post_mortem, rows, story
from trainshed.views.chapter import Story

from .local_words import local_story
from .model import JobFile, Sample, SeenPod
from .report_content import JobReport, samples_of
from .samples import sample_of, with_sample
from .seen_facts import facts_of
from .seen_pods import SEEN_PODS, controller_uid, seen


async def read_report(reader: JobReader, namespace: str, name: str, *, record: bool = False) -> JobReport:
    """Return what is known of a job that `name` means, from its record if there is no job of that name.

    With `record` the job itself is not looked for. Raises `NoSuchJob`, and errors of the API server.
    """
    now = Clock().now()
    command = version("trainshed")
    if not record:
        try:
            document, kind = await reader.find(namespace, name)
        except NoSuchJob as error:
            missing = error
        else:
            known = await _own_record(reader, document)
            operator = parse_text(as_mapping(as_mapping(known).get("record")).get("operator"))
            file = await _file(reader, document, kind)
            samples = samples_of(known) if known else ()
            versions = Versions(operator, one_line(await kubernetes_version(reader.rest), 64))
            return JobReport(replace(file, samples=samples), versions, now, command)
    else:
        missing = NoSuchJob(f"there is no record of {name} in namespace {namespace}")
    try:
        records = chosen(await read_records(reader, namespace), [name])
    except Forbidden as error:
        raise missing from error
    if not records:
        raise missing
    return of_record(records[0], command)


def of_record(record: Document, command: str) -> JobReport:
    """Return the report of a job of which there is only the record."""
    file = JobFile(record, status_codec.parse_status(record), samples=samples_of(record))
    with_story = replace(file, story=_story_of_record(file))
    return JobReport(with_story, Versions(), Clock().now(), command, from_record=True)


def _story_of_record(file: JobFile) -> Story | None:
    now = ended_at(file.document) or Clock().now()
    facts = facts_of(file, now)
    if facts is None:
        return None
    snapshot = replace(facts.snapshot, job=replace(facts.snapshot.job, problems=()))
    return post_mortem.story_of_record(story.tell(Facts(snapshot), file.document), file.document)


def read_run(content: bytes, name: str) -> JobReport:
    """Return the report of a job of a run on a machine, by what the folder of the run has of it.

    An empty name is that of the only job. Raises `NoSuchJob` and `msgspec.DecodeError`.
    """
    history = run_history.decode(content)
    found = [job for job in history.jobs if name in ("", rows.name_of(job), rows.full_name(job))]
    if len(found) != 1:
        known = ", ".join(map(rows.full_name, history.jobs)) or "none"
        raise NoSuchJob(f"name one job of the run: it has {known}")
    job, samples = found[0], tuple[Sample, ...]()
    uid = parse_text(rows.metadata(job).get("uid"))
    for report in history.reports.get(uid, ()):
        samples = with_sample(samples, sample_of(status_codec.parse_status({"status": {"trainerStatus": report}})))
    pods = tuple(SeenPod(seen(one.document)[1], one.removed) for one in history.pods)
    own = tuple(one for one in pods if controller_uid(one.document) == uid)
    uids = {uid, *(parse_text(rows.metadata(one.document).get("uid")) for one in own)}
    events = tuple(event for event in history.events if as_mapping(event.get("involvedObject")).get("uid") in uids)
    file = JobFile(job, status_codec.parse_status(job), pods=own, samples=samples, events=events)
    facts = facts_of(file, history.ended)
    run_story = local_story(story.tell(facts, job), job) if facts else None
    return JobReport(replace(file, story=run_story), Versions(), history.ended, version("trainshed"), of_run=True)


async def _file(reader: JobReader, document: Document, kind: JobKind) -> JobFile:
    """Return a job with its pods and Events, as far as they may be read."""
    uid = parse_text(rows.metadata(document).get("uid"))
    typed = await reader.pods(document)
    label = {"labelSelector": f"{JOB_NAME_LABEL}={rows.name_of(document)}"}
    seen = await reader.read_list(Path(CORE, "pods", rows.namespace_of(document)), SEEN_PODS, label)
    try:
        events = await reader.events(document, typed)
    except Forbidden:
        events = []
    return JobFile(
        document,
        status_codec.parse_status(document),
        pods=tuple(SeenPod(pod) for _, pod in seen if controller_uid(pod) == uid),
        events=tuple(events),
        story=await read_story(reader, document, kind, typed),
    )


async def _own_record(reader: JobReader, document: Document) -> Document | None:
    """Return the record of a job that is still there, None if it has none or that may not be read."""
    uid = rows.metadata(document).get("uid")
    try:
        records = await read_records(reader, rows.namespace_of(document))
    except ApiError:
        return None
    return next((one for one in records if as_mapping(one.get("metadata")).get("uid") == uid), None)

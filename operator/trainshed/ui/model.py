"""What the pages are made of: documents as the API server has them, and what was seen before."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

import msgspec

from trainshed.api.coerce import as_mapping
from trainshed.api.job import QUEUE_LABEL, Document
from trainshed.api.objects import Pod
from trainshed.api.status import ConditionType, Status
from trainshed.views import rows
from trainshed.views.chapter import Story

#: States that only the page has a word for: a job that does not advance, one that waits for Kueue, one that is gone.
STALLED, QUEUED, DELETED = "Stalled", "Queued", "Deleted"


class Address(msgspec.Struct, frozen=True):
    """Which job is meant; `kind` is in lower case, as commands take it."""

    namespace: str
    kind: str
    name: str

    @property
    def path(self) -> str:
        """The path of the job's page."""
        return "/jobs/" + "/".join(quote(part, safe="") for part in (self.namespace, self.kind, self.name))

    @property
    def element(self) -> str:
        """The id of the job's row."""
        return f"job:{self.namespace}/{self.kind}/{self.name}"


class SeenPod(msgspec.Struct, frozen=True):
    """A pod as it was seen last: its metadata, `spec.nodeName`, the containers with their resources, its status.

    `removed` is when its deletion was seen; None while it is there.
    """

    document: Document
    removed: datetime | None = None


class PodLife(msgspec.Struct, frozen=True):
    """The same, read: a pod as it was last seen, and when it was seen to be gone; None while it is there."""

    pod: Pod
    removed: datetime | None = None


class Sample(msgspec.Struct, frozen=True):
    """What a training reported at a time: the metrics that are numbers, by name."""

    time: datetime
    step: int | None
    percentage: int | None
    metrics: tuple[tuple[str, float], ...]


class RanksAt(msgspec.Struct, frozen=True):
    """Ranks at the same place: who they are, the important frames of their stack and all, the innermost first.

    `waits` is whether they wait for all others. All of it is printable.
    """

    who: str
    important: tuple[str, ...]
    frames: tuple[str, ...]
    waits: bool


class ShownStacks(msgspec.Struct, frozen=True):
    """The stacks of a job that were read at a time: a sentence, groups of ranks, what is missing, and what to do."""

    time: datetime
    headline: str = ""
    groups: tuple[RanksAt, ...] = ()
    problems: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


class JobFile(msgspec.Struct, frozen=True):
    """All that the pages of a job are drawn from.

    In lists the document has no spec, and `pods`, `events` and `story` are empty. `deleted` is when its deletion was
    seen; None while it is there. `stacks` are those that were asked for.
    """

    document: Document
    status: Status
    pods: tuple[SeenPod, ...] = ()
    samples: tuple[Sample, ...] = ()
    events: tuple[Document, ...] = ()
    story: Story | None = None
    deleted: datetime | None = None
    stacks: ShownStacks | None = None

    @property
    def address(self) -> Address:
        """Where its page is."""
        return address_of(self.document)

    @property
    def state(self) -> str:
        """The state that the page shows: that of commands, or one of the page's own words."""
        if self.deleted:
            return DELETED
        found = self.status.current_state
        if found == ConditionType.RUNNING and self.status.true(ConditionType.STALLED):
            return STALLED
        if found == ConditionType.RUNNING and self.status.recovers:
            return ConditionType.RESTARTING
        labels = as_mapping(as_mapping(self.document.get("metadata")).get("labels"))
        return QUEUED if found == ConditionType.SUSPENDED and labels.get(QUEUE_LABEL) else found

    @property
    def warns(self) -> bool:
        """Whether it is as its user wants it and will not stay so, as its deadline stops it too early."""
        return self.state == ConditionType.RUNNING and bool(rows.too_late(self.status, self.document))


class LocalPlace(msgspec.Struct, frozen=True):
    """A run on this machine: the folder of its logs, and commands for a shell.

    `again` starts it again, and `report` writes a report of it, but for the name of the job.
    """

    logs: str
    again: str
    report: str


class JobsPlace(msgspec.Struct, frozen=True):
    """Where the jobs are: the name of the cluster or the machine.

    `program` is what serves the page, empty if its readers cannot start it; `local` is the run, if it shows one.
    """

    name: str
    program: str = "trainshed ui"
    local: LocalPlace | None = None


class Notice(msgspec.Struct, frozen=True):
    """What every page says above its content: `kind` is `outage`, `credentials` or `refused`."""

    kind: str
    text: str


class PageFrame(msgspec.Struct, frozen=True):
    """What surrounds the content of every page.

    `program` is what serves it, for who can start that again, and `local` the run on this machine that it shows.
    `place` names the cluster or the machine, an empty `namespace` means all, `revision` is that of the feed with which
    the page was drawn, `live` the path of its changes. `is_known` is whether all that is there was read once. `csrf` is
    the token of its forms; `may_change` and `reads_stacks` say which there are.
    """

    now: datetime
    place: str = ""
    namespace: str = ""
    notices: tuple[Notice, ...] = ()
    revision: int = 0
    live: str = ""
    is_known: bool = True
    csrf: str = ""
    may_change: bool = False
    reads_stacks: bool = False
    program: str = "trainshed ui"
    local: LocalPlace | None = None


def address_of(document: Document) -> Address:
    """Return which job a document is."""
    namespace, kind, name = rows.identity(document)
    return Address(namespace, kind.lower(), name)

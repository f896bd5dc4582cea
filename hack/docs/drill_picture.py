"""The picture of a drill: what the command prints about runs made up here, judged and described by its own code."""

from __future__ import annotations

from collections.abc import Iterator

from trainshed.drill.course import baseline_sentences
from trainshed.drill.faults import KillInWrite, KillRank, Resize, Suspend
from trainshed.drill.file_events import CLOSE_WRITE, CREATE, MODIFY, FileEvent
from trainshed.drill.observation import KILLED, Ending, Observation, ReplicaEnd, StepReport
from trainshed.drill.outcome import DrillOutcome, as_text, described
from trainshed.drill.verdict import FaultVerdict, judge

from .drawing import picture, words

#: The height of a line, the characters of one, and the width of the picture.
LINE, LONGEST, WIDTH = 22, 118, 1000
STYLE = """<style>
.line { font: 13px ui-monospace, monospace; white-space: pre; }
.passed { fill: #2e7d32; font-weight: 600; } .failed { fill: #c62828; font-weight: 600; }
</style>"""
FILE, FOLDERS = "/claims/research/mnist/model.pt", ("/pods", "/claims")


def drill() -> str:
    """Draw what a drill prints about a job that ignores SIGTERM and saves its checkpoints where they are."""
    lines = [*_wrapped(_printed())]
    rows = [
        words((20, 24 + LINE * number), text, f"line {style}".strip(), "start")
        for number, (text, style) in enumerate(lines)
    ]
    return picture((WIDTH, 30 + LINE * len(lines)), "What a drill prints", STYLE, *rows)


def _printed() -> Iterator[str]:
    base = _run(*_steps(1, 400, 0.0))
    before = _steps(1, 200, 0.0)
    ignored = tuple(ReplicaEnd(30.4, f"mnist-worker-{n}", KILLED, "Error", 20.3, 10.0) for n in range(2))
    crash = ReplicaEnd(
        25.0, "mnist-master-0", 1, "Error", last_line="RuntimeError: PytorchStreamReader failed reading zip"
    )
    runs = (
        (KillRank(), _run(*before, *_steps(161, 260, 24.0, 1), what="mnist-worker-1")),
        (Suspend(), _run(*_steps(1, 300, 0.0), *_steps(281, 360, 36.0, 1), ends=ignored)),
        (Resize(), _run(*before, *_steps(161, 260, 27.5, 1), what="3 in place of 4 replicas")),
        (KillInWrite(), _run(*before, state="Failed", ending=Ending.OVER, ends=(crash,), target="model.pt", hit=True)),
    )
    verdicts: list[FaultVerdict] = []
    yield "$ trainshed drill -f mnist.yaml --quick"
    yield "drill of PyTorchJob research/mnist: a run without a fault, then 4 with one each"
    yield from (f"  {text}" for text in baseline_sentences(base))
    for fault, seen in runs:
        verdicts.append(judge(fault, base, seen, 0.1, loads=True))
        yield ""
        yield from described(verdicts[-1])
    yield from as_text(DrillOutcome("PyTorchJob research/mnist", baseline_sentences(base), tuple(verdicts), 93.0))


def _wrapped(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield lines that fit, each with its style."""
    for line in lines:
        style = next((word for word in ("passed", "failed") if line.startswith(word.upper())), "")
        head, rest = line[:LONGEST], line[LONGEST:]
        if rest:
            head, _, end = head.rpartition(" ")
            rest = end + rest
        yield head, style
        if rest:
            yield f"{'':<12}{rest}", style


def _steps(first: int, last: int, at: float, attempt: int = 0) -> tuple[StepReport, ...]:
    """Ten steps in a second."""
    return tuple(
        StepReport(at + (step - first) / 10, attempt, step, round(0.3 + 2 * 0.99**step, 4))
        for step in range(first, last + 1)
    )


def _run(*reports: StepReport, ending: Ending = Ending.ENOUGH, state: str = "Running", **more) -> Observation:
    files = (
        FileEvent(0.5, FILE, CREATE),
        *(
            FileEvent(4.0 * n + end, FILE, kind)
            for n in range(1, 11)
            for end, kind in ((0.0, MODIFY), (0.4, CLOSE_WRITE))
        ),
    )
    fields = {"fault_at": 20.0, "back_at": 22.0, "files": files, "folders": FOLDERS}
    return Observation(0.0, 60.0, ending, state, reports=reports, **(fields | more))

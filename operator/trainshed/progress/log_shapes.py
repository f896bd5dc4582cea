"""What a line of a training's log says: its step, the number of steps, the epoch, and metrics.

The shapes are those of tqdm (Hugging Face, Lightning), Keras, Hugging Face's and JSON records, Megatron, XGBoost, the
examples of PyTorch, and `step 12/100 loss=0.4`. All expressions take linear time, and of a long line the end is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from trainshed.api.log_patterns import compiled

#: Characters of a line that are read, the most metrics of a line, and the longest name and value.
LONGEST, LONGEST_TITLE, MOST_METRICS, MOST_TEXT = 2_000, 200, 32, 64
#: No number of a step or an epoch is as large.
LARGEST = 1e15
#: Escape sequences of a terminal, and what goes back to the start of a bar.
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08+")
NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf)"
#: Words before a bar or a step that is not one of the training, and those of a bar that is.
OTHER = re.compile(
    r"(?i)\b(?:val|valid(?:ation)?|eval(?:uat\w+)?|test(?:ing)?|predict\w*|sanity|download\w*|load\w*|map|filter\w*"
    r"|tokeni[sz]\w*|generati\w*|saving|fetch\w*|resolving)\b"
)
TRAINING = re.compile(r"(?i)\b(?:train\w*|epochs?|steps?|iter\w*|fit\w*)\b")

BAR = re.compile(
    r"\d{1,3}%\|[^|]{0,400}\|\s*(?P<step>\d{1,15})/(?P<total>\d{1,15}) \[[\d:]+<(?P<left>[\d:?]{1,15})"
    r"(?P<more>[^\]]{0,800})"
)
RICH = re.compile(
    r"^Epoch (?P<epoch>\d{1,15})/(?P<last>\d{1,15})\s+[━╸╺ ]+\s(?P<step>\d{1,15})/(?P<total>\d{1,15}) [\d:]+"
    r" • (?P<left>[\d:]{1,15})(?P<more>.*)"
)
KERAS = re.compile(r"^(?P<step>\d{1,15})/(?P<total>\d{1,15}) (?:[━╸\[]\S*|- \d+m?s -) ?(?P<more>.*)")
KERAS_EPOCH = re.compile(r"^Epoch (?P<epoch>\d{1,15})/(?P<epochs>\d{1,15})$")
RECORD = re.compile(r"\{.*\}")
PAIR = re.compile(rf"""["'](\w[\w/. -]{{0,63}})["']\s*:\s*["']?({NUMBER})\b""")
MEGATRON = re.compile(r"\biteration\s+(?P<step>\d{1,15})/\s*(?P<total>\d{1,15})\s*\|(?P<more>.*)")
MEGATRON_FIELD = re.compile(rf"([a-zA-Z][\w ()/-]{{0,63}}+):\s+({NUMBER})")
TORCH_EXAMPLE = re.compile(
    r"\bEpoch:\s*(?P<epoch>\d{1,15})\s*\[\s*(?P<step>\d{1,15})/(?P<total>\d{1,15})\s*(?:\(\d+%\))?\](?P<more>.*)"
)
BOOSTER = re.compile(r"\[(?P<step>\d{1,15})\]\t(?P<more>.+)")
EPOCH = re.compile(r"(?i)\bepoch\s*[:=#]?\s*\[?(?P<epoch>\d{1,15}(?:\.\d+)?)(?:\s*(?:/|of)\s*(?P<epochs>\d{1,15}))?")
STEP = re.compile(
    r"(?i)\b(?:global[_ ])?(?:steps?|iter(?:ation)?s?|batch(?:es)?)\s*[:=#]?\s*\[?\s*(?P<step>\d[\d,]{0,19})"
    r"(?:\s*(?:/|of)\s*(?P<total>\d[\d,]{0,19}))?"
)
BRACKETS = re.compile(r"[\[|]\s*(?P<step>\d{1,15})\s*/\s*(?P<total>\d{1,15})\s*(?:\]|batches|\|)")
METRIC = re.compile(
    r"(?i)(?<![\w-])([a-z_][a-z_/]{0,63}+(?:(?<=loss)|(?<=acc)|(?<=accuracy)|(?<=lr)|(?<=ppl)|(?<=perplexity)|(?<=mae)"
    rf"|(?<=mse)|(?<=auc)|(?<=reward))|learning[_ ]rate|grad_norm)\s*[:= ]\s*({NUMBER})(?![\w%])"
)
ASSIGNED = re.compile(rf"(?<![\w/-])([\w/-]{{1,64}}+)[=:] ?({NUMBER})(?![\w/%])")
TOTAL = re.compile(r"Total optimization steps = (?P<total>[\d,]{1,20})$")
EPOCHS = re.compile(r"Num Epochs = (?P<epochs>[\d,]{1,20})$")
#: Names under which records have what is no metric.
STEPS = ("step", "global_step", "current_step", "iteration", "iter", "train/global_step", "trainer/global_step")
TOTALS = ("total_steps", "max_steps", "total", "num_steps", "total_iterations")

Metrics = tuple[tuple[str, str], ...]


class LineReport(msgspec.Struct, frozen=True):
    """What a line says: None or empty where it says nothing.

    An `epoch` is how many are over, and a part of the next; if `numbered`, it is the number of one, and programs begin
    with 0 or 1. If `of_epoch`, step and total begin again with each epoch.
    `remaining` are the seconds until the total. `bar` is whether the line is a progress bar, of which a program may
    have others; `title` is what stands before it.
    """

    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    epochs: int | None = None
    metrics: Metrics = ()
    remaining: float | None = None
    of_epoch: bool = False
    numbered: bool = False
    bar: bool = False
    title: str = ""


def parse(line: str) -> LineReport | None:
    """Return what a line says, None if that is nothing about a training."""
    text = ANSI.sub("", line[-LONGEST:]).strip()
    if not any(character.isdigit() for character in text):
        return None
    for mark, shape in SHAPES:
        if mark in text and (report := shape(text)):
            return report
    return None


def by_expression(written: str) -> Callable[[str], LineReport | None]:
    """Return the parser of a job with an expression of its own, the only lines of which count.

    Its groups `step`, `total`, `epoch` and `epochs` are what they say, all others are metrics.
    """
    pattern = compiled(written)

    def parse_own(line: str) -> LineReport | None:
        found = pattern.search(ANSI.sub("", line[-LONGEST:]))
        if not found:
            return None
        groups = {name: text.strip()[:MOST_TEXT] for name, text in found.groupdict().items() if text}
        step, total, epochs = (_whole(groups.pop(name, "")) for name in ("step", "total", "epochs"))
        epoch = _known_number(groups.pop("epoch", ""))
        return LineReport(step, total, epoch, epochs, tuple(groups.items()))

    return parse_own


def _known_number(text: str) -> float | None:
    """Return a number that can be calculated with: neither `nan` nor one that no training reaches."""
    try:
        found = float(text.replace(",", ""))
    except ValueError:
        return None
    return found if 0 <= found < LARGEST else None


def _bar(text: str) -> LineReport | None:
    if not (found := BAR.search(text)):
        return None
    title = text[: found.start()].rpartition("|")[2][-LONGEST_TITLE:].strip()
    if title and (OTHER.search(title) or not TRAINING.search(title)):
        return LineReport(bar=True, title=title)
    epoch = EPOCH.search(title)
    metrics = tuple(_assigned(found["more"]))
    step, total = int(found["step"]), int(found["total"])
    if re.fullmatch(r"(?i)epochs?:?", title):
        return LineReport(epoch=float(step), epochs=total, metrics=metrics, bar=True, remaining=_seconds(found["left"]))
    return LineReport(
        step, total, _epoch(epoch), _int(epoch, "epochs"), metrics, _seconds(found["left"]),
        of_epoch=epoch is not None, numbered=_is_number(epoch), bar=True, title=title,
    )  # fmt: skip


def _rich(text: str) -> LineReport | None:
    """A bar of Lightning with rich, which numbers its epochs from 0, and names the last one."""
    if not (found := RICH.match(text)):
        return None
    step, total, epoch, last = (int(found[name]) for name in ("step", "total", "epoch", "last"))
    metrics = tuple(_metrics(found["more"]))
    return LineReport(
        step, total, float(epoch), last + 1, metrics, _seconds(found["left"]), of_epoch=True, bar=True, title="Epoch"
    )


def _keras(text: str) -> LineReport | None:
    if found := KERAS_EPOCH.match(text):
        return LineReport(epoch=float(found["epoch"]), epochs=int(found["epochs"]), numbered=True)
    # A bar without a loss is one of predict().
    if (found := KERAS.match(text)) and (metrics := tuple(_assigned(found["more"]))):
        return LineReport(int(found["step"]), int(found["total"]), metrics=metrics, of_epoch=True)
    return None


def _record(text: str) -> LineReport | None:
    """A record of Hugging Face, whose numbers are texts since version 5, or of JSON."""
    if not (found := RECORD.search(text)):
        return None
    pairs = dict(PAIR.findall(found[0])[:MOST_METRICS])
    if any(name.startswith(("eval_", "test_")) for name in pairs) or "train_runtime" in pairs:
        return None
    step = next((_whole(pairs.pop(name)) for name in STEPS if name in pairs), None)
    total = next((_whole(pairs.pop(name)) for name in TOTALS if name in pairs), None)
    epoch = pairs.pop("epoch", None)
    metrics = tuple((name, value) for name, value in pairs.items() if METRIC.search(f"{name} {value}"))
    if step is None and not metrics:
        return None
    return LineReport(step, total, _known_number(epoch or ""), metrics=metrics)


def _megatron(text: str) -> LineReport | None:
    if not (found := MEGATRON.search(text)):
        return None
    fields = map(MEGATRON_FIELD.fullmatch, map(str.strip, found["more"].split("|")))
    metrics = tuple((field[1], field[2]) for field in fields if field and METRIC.search(f"{field[1]} {field[2]}"))
    return LineReport(int(found["step"]), int(found["total"]), metrics=metrics[:MOST_METRICS])


def _torch_example(text: str) -> LineReport | None:
    if not (found := TORCH_EXAMPLE.search(text)) or OTHER.search(text[: found.start()]):
        return None
    metrics = tuple(_metrics(found["more"]))
    return LineReport(
        int(found["step"]), int(found["total"]), float(found["epoch"]), metrics=metrics, of_epoch=True, numbered=True
    )


def _booster(text: str) -> LineReport | None:
    """A round of XGBoost or LightGBM."""
    if not (found := BOOSTER.search(text)):
        return None
    metrics = tuple(_assigned(found["more"]))
    return LineReport(int(found["step"]), metrics=metrics) if metrics else None


def _announced(text: str) -> LineReport | None:
    """What Hugging Face says before it begins."""
    if found := TOTAL.search(text):
        return LineReport(total=_whole(found["total"]))
    if found := EPOCHS.search(text):
        return LineReport(epochs=_whole(found["epochs"]))
    return None


def _words(text: str) -> LineReport | None:
    """A line such as `epoch 1 | step 12/100 | loss 0.4`."""
    step, epoch = STEP.search(text), EPOCH.search(text)
    step = step if step and (step["total"] or not BRACKETS.search(text)) else BRACKETS.search(text)
    first, total = step or epoch, _int(step, "total")
    metrics = tuple(_metrics(text)) if first else ()
    if first is None or not (metrics or total) or OTHER.search(text[: first.start()]):
        return None
    return LineReport(
        _int(step, "step"), total, _epoch(epoch), _int(epoch, "epochs"), metrics,
        of_epoch=bool(step and step["total"] and _is_number(epoch)), numbered=_is_number(epoch),
    )  # fmt: skip


#: The shapes of lines, the first one of which counts, each with what a line of it has in any case.
SHAPES: tuple[tuple[str, Callable[[str], LineReport | None]], ...] = (
    ("%|", _bar),
    ("•", _rich),
    ("/", _keras),
    ("iteration", _megatron),
    ("Epoch:", _torch_example),
    ("]\t", _booster),
    (" = ", _announced),
    ("}", _record),
    ("", _words),
)


def _metrics(text: str) -> Iterator[tuple[str, str]]:
    for name, value in METRIC.findall(text)[:MOST_METRICS]:
        yield name[:MOST_TEXT], value[:MOST_TEXT]


def _assigned(text: str) -> Iterator[tuple[str, str]]:
    for name, value in ASSIGNED.findall(text)[:MOST_METRICS]:
        if name != "ETA":
            yield name[:MOST_TEXT], value[:MOST_TEXT]


def _seconds(text: str) -> float | None:
    """Return the seconds of `1:02:03`, None for `?`."""
    if "?" in text:
        return None
    seconds = 0
    for part in text.split(":"):
        seconds = seconds * 60 + int(part or 0)
    return float(seconds)


def _whole(text: str) -> int | None:
    found = _known_number(text)
    return None if found is None else int(found)


def _int(found: re.Match[str] | None, group: str) -> int | None:
    return _whole(found[group]) if found and group in found.re.groupindex and found[group] else None


def _epoch(found: re.Match[str] | None) -> float | None:
    return float(found["epoch"]) if found else None


def _is_number(found: re.Match[str] | None) -> bool:
    """Return whether an epoch is a number of one, and not how much is done, such as 0.5."""
    return found is not None and "." not in found["epoch"]

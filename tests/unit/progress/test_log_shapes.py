"""Lines of logs as programs print them say how far a training has come, and other lines say nothing."""

from __future__ import annotations

import time
import timeit

import pytest

from trainshed.progress.log_shapes import LONGEST, MOST_METRICS, parse

BAR = " 30%|███       | 12/40 [00:00<00:01, 19.12it/s, loss=0.0833]"
KERAS = (
    "\x1b[1m12/100\x1b[0m \x1b[32m━━━━━\x1b[0m\x1b[37m━━━━━\x1b[0m \x1b[1m3s\x1b[0m 10ms/step"
    " - accuracy: 0.91 - loss: 0.5"
)
MEGATRON = (
    " [2026-01-01 10:00:00] iteration      100/    5000 | consumed samples:         6400 | elapsed time per iteration"
    " (ms): 123.4 | learning rate: 1.000000E-04 | global batch size:    64 | lm loss: 1.234567E+00 | grad norm: 0.5 |"
)


def said(line: str) -> tuple:
    """What a line says: step, total, the epoch, epochs, the first metric, and whether it is of an epoch."""
    report = parse(line)
    assert report is not None
    return (report.step, report.total, report.epoch, report.epochs, *report.metrics[:1], report.of_epoch)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(BAR, (12, 40, None, None, ("loss", "0.0833"), False), id="tqdm"),
        (f"Epoch 3: {BAR}", (12, 40, 3.0, None, ("loss", "0.0833"), True)),
        (f"[rank0]: Training: {BAR}", (12, 40, None, None, ("loss", "0.0833"), False)),
        ("Epochs:  20%|##        | 1/5 [00:10<00:40, 10.0s/it]", (None, None, 1.0, 5, False)),
        (
            "Epoch 2/2  ━━━━━━━━━━━━━━━━━ 40/40 0:00:00 • 0:00:00 50.95it/s train_loss: 0.004",
            (40, 40, 2.0, 3, ("train_loss", "0.004"), True),
        ),
        (KERAS, (12, 100, None, None, ("accuracy", "0.91"), True)),
        (
            "20/20 - 1s - 13ms/step - loss: 0.1245 - val_loss: 0.12",
            (20, 20, None, None, ("loss", "0.1245"), True),
        ),
        (f"{KERAS}{chr(8) * 70}", (12, 100, None, None, ("accuracy", "0.91"), True)),
        ("12/100 [==>.........] - ETA: 3s - loss: 0.5", (12, 100, None, None, ("loss", "0.5"), True)),
        ("Epoch 3/10", (None, None, 3.0, 10, False)),
        (
            "{'loss': '0.1234', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.5'}",
            (None, None, 0.5, None, ("loss", "0.1234"), False),
        ),
        ("{'loss': 2.5, 'learning_rate': 5e-05, 'epoch': 0.5}", (None, None, 0.5, None, ("loss", "2.5"), False)),
        ('INFO {"step": 100, "loss": 0.4, "host": "a"}', (100, None, None, None, ("loss", "0.4"), False)),
        ("  Total optimization steps = 1,000", (None, 1000, None, None, False)),
        ("  Num Epochs = 3", (None, None, None, 3, False)),
        (MEGATRON, (100, 5000, None, None, ("learning rate", "1.000000E-04"), False)),
        ("Train Epoch: 2 [640/60000 (1%)]\tLoss: 2.3", (640, 60000, 2.0, None, ("Loss", "2.3"), True)),
        ("Epoch: [0][ 10/100]\tTime  0.1 ( 0.2)\tLoss 6.9e+00", (10, 100, 0.0, None, ("Loss", "6.9e+00"), True)),
        ("| epoch   1 |   200/ 2928 batches | loss  8.10", (200, 2928, 1.0, None, ("loss", "8.10"), True)),
        ("[12]\ttrain-rmse:0.12345\ttest-rmse:0.2", (12, None, None, None, ("train-rmse", "0.12345"), False)),
        ("step 1,100/2,000 loss=0.31", (1100, 2000, None, None, ("loss", "0.31"), False)),
        ("iter 100: loss 4.1234, time 12.3ms", (100, None, None, None, ("loss", "4.1234"), False)),
        ("epoch 2/3 train_loss: nan", (None, None, 2.0, 3, ("train_loss", "nan"), False)),
    ],
)
def test_a_line_of_a_training_is_read(line, expected):
    assert said(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        *("", "hello", "hello 12/13", "GET /step 3 HTTP", "step 3: install requirements", "loss prevention in 3 steps"),
        "Test set: Average loss: 0.05, Accuracy: 9850/10000 (98%)",
        "{'eval_loss': '0.5', 'eval_runtime': '1.2', 'epoch': '1'}",
        "{'train_runtime': '9.1', 'train_loss': '0.5', 'epoch': '3'}",
        '{"level": 3, "msg": "ready"}',
        "Validation step 3/10 loss 0.5",
        "20/20 ━━━━━━━━━━ 0s 2ms/step",
    ],
)
def test_other_lines_say_nothing(line):
    assert parse(line) is None


@pytest.mark.parametrize(
    "title", ["Evaluating", "Validation DataLoader 0", "Map", "Loading checkpoint shards", "x.bin"]
)
def test_a_bar_of_something_else_is_none_of_the_training(title):
    report = parse(f"{title}: {BAR}")
    assert report is not None
    assert (report.step, report.metrics) == (None, ())


#: Seconds of processor time in which a line is read, four times as long as it takes.
SOON = 0.012


@pytest.mark.parametrize(
    "text",
    [
        *("step 1/2 " + "loss=0.1 " * 5000, "[1]\t" + "_" * 1990, "1/2 - 1s - " + "_" * 1980),
        "iteration 1/2 |" + " " * 1970,
        *(part * 9000 for part in ("1%|", "[1/", "{'a': 1,", "a/", "1 1", "{", "1 a ")),
    ],
    ids=lambda text: text[:12],
)
def test_a_hostile_line_is_read_in_bounds(text):
    report = parse(text + " 1")
    assert min(timeit.repeat(lambda: parse(text + " 1"), time.process_time, number=1, repeat=5)) < SOON
    assert report is None or len(report.metrics) <= MOST_METRICS
    assert parse("step 1/2 loss=0.5" + " " * LONGEST) is None, "only the end of a line is read"
